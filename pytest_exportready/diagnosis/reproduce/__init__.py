"""Write a failed export as one Python file that needs torch and nothing of the project."""
