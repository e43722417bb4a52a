"""What other programs would print for the same model and text, and what makes it differ.

A file a program: its windows, what it counts and how it averages. `speech` has what they share.
"""
