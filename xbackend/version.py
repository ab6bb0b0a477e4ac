"""The version of this package, for those that its own modules import."""

VERSION = "0.2.0"
