"""Drawings of programs and executed graphs, by device, as Mermaid, DOT or SVG."""
