"""Work in processes of their own: forked children with limits, and the loader of saved programs."""
