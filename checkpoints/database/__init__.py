"""What holds of every table: the database's clock, locks that others hold, passing trouble, reads
of one moment.
"""
