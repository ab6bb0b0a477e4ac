"""How a report is written: as markdown, as HTML, in a terminal."""
