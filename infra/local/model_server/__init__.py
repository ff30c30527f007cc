"""A stand-in for the Anthropic Messages API: answers from the prompt, or follows a `/sim` script."""
