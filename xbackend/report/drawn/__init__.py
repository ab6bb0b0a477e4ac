"""What a report shows: its pictures, as SVG."""
