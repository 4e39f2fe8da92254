"""The LLTM recurrent cell: one step, sequences, and single-launch kernels for small steps."""
