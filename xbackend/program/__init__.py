"""The op set and programs as data: no framework here."""
