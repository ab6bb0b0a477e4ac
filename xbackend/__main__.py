"""``xbackend``, and ``python -m xbackend``: the command line, or what to type where its packages are not installed."""

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    from xbackend import errors, extras

    try:
        extras.need("the command xbackend")
    except errors.UsageError as error:
        print(f"xbackend: {error}", file=sys.stderr)
        return 2
    from xbackend import cli

    return cli.main()


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder: it must not shadow our modules
    sys.exit(main())
