"""What the library reports about the outside world, with the text that the command prints."""


class Error(Exception):
    """The text reads `what: expected …, got …; in <innermost>, <outer>; hint`."""


class UsageError(Error, ValueError):
    """An argument, or a request that does not suit this model."""


class BadInputError(Error, ValueError):
    """A file, a config or a dump that is not as it must be."""


class InternalError(Error, RuntimeError):
    """A fault of Mainstem itself."""


def usage_error(what: str, expected: str, got: object) -> UsageError:
    """The error with the library's form of text."""
    return UsageError(f"{what}: expected {expected}, got {got}")
