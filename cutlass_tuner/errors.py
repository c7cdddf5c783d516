"""What the user did wrong, in one line."""


class UserError(Exception):
    """A mistake of the user's, or of their machine, that one line can explain.

    The text says what was wrong, the value seen, what is allowed and, where it helps, what to do
    next. The CLI prints it without a traceback and exits with status 2.
    """
