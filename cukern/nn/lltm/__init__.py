"""The LLTM recurrent cell: one step, sequences, and small ones as one launch."""
