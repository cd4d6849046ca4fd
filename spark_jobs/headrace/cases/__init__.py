"""`headrace test`: a pipeline, what arrives and what must come out, run by the production compiler and runtime.

    read      text of a case file -> cases                              pure
    arrange   a case and its compiled pipeline -> actions to take       pure
    run       actions against a live pipeline -> a report               Spark lives here
    compare   expected and actual rows -> what differs                  pure
    report    many cases -> lines on a terminal and an exit code

CASES.md is the contract of the files. Nothing here may know what a pipeline computes: a case that needs
help from the runner is a case that proves nothing.
"""
