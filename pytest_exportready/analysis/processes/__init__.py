"""Run work in separate processes: forked children with a time limit, and the process that loads saved programs."""
