"""The version of this package, in a module that all others can import."""

VERSION = "0.2.0"
