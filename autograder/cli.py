app=print
