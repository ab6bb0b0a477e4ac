"""The writers of a report: markdown, HTML, a terminal."""
