"""Several claims in one test cell, each worth a part of its points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autograder.check.judge import CheckFailed, Verdict


class Parts:
    """Collects claims, so that one that fails does not cost the points of the others.

        parts = check.Parts()
        with parts(2):
            check.parameters(model, trainable=22)
        with parts(4):
            check.trains(model)
        parts.score()

    `score()` stands last in the cell. nbgrader takes a number there for the points, and nothing for all of them.
    """

    def __init__(self) -> None:
        self.earned = 0.0
        self.possible = 0.0
        self._messages: list[str] = []

    @contextmanager
    def __call__(self, points: float) -> Iterator[None]:
        """The claims inside are worth so many points together.

        An error of the learner's code counts as a claim that does not hold.
        """
        self.possible += points
        try:
            yield
        except CheckFailed as failed:
            self._messages.append(str(failed))
        except Exception as error:
            lines = str(error).strip().splitlines()
            found = f"{type(error).__name__}: {lines[0] if lines else ''}"
            self._messages.append(str(CheckFailed(Verdict(False, "code that runs", found))))
        else:
            self.earned += points

    def score(self) -> float | None:
        """The points earned, with the messages of the claims that failed printed above; None for all of them.

        Raises:
            CheckFailed: nothing holds.
        """
        if not self._messages:
            return None
        if not self.earned:
            failed = CheckFailed(Verdict(False))
            failed.args = ("\n\n".join(self._messages),)
            raise failed
        print(f"{self.earned:g} of {self.possible:g} points. What does not hold yet:")
        print("\n\n".join(self._messages))
        return self.earned
