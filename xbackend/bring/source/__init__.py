"""Programs as source code of a framework: scripts as a person would write them, which run without xbackend."""

from xbackend.bring.source.script import FRAMEWORKS, Source, to_source

__all__ = ["FRAMEWORKS", "Source", "to_source"]
