"""nbgrader's settings for this course.

They hold for nbgrader's own commands (`nbgrader autograde 01-tensor-tracking` in this folder), for formgrader
and for `autograder grade`. Beside names and time limits they change three things in nbgrader's pipeline:
what a submission may do to its test cells (`intake`), how long and how it runs (`run`), and how many points
come of it (`score`). Feedback shows what a hidden test claimed, expected and found, but not its source.
"""

c = get_config()  # noqa: F821 - traitlets defines it

c.CourseDirectory.course_id = "keras-parameters"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", ".autograder.json"]

c.ClearSolutions.code_stub = {
    "python": "# Your answer here, in place of the next line.\n"
    'raise NotImplementedError("no answer yet: write it in place of this line")'
}

# Importing TensorFlow and building the first model takes seconds, the training cells of unit 4 some more.
c.Execute.timeout = 120
c.Execute.startup_timeout = 120
c.Execute.iopub_timeout = 20

c.OverwriteCells.add_missing_cells = True

c.Autograde.sanitize_preprocessors = [
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "autograder.grading.intake.Restore",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "autograder.grading.run.Run",
    "nbgrader.preprocessors.LimitOutput",
    "autograder.grading.score.Score",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "autograder.grading.feedback.HideTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
