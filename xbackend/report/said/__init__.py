"""What a report says: sentences and tables, as blocks."""
