"""The parts of the judge: tasks, texts of candidates, bounds of errors, and the process in which candidates run."""
