"""What is refused is told in one line."""

import pytest

from beyond_perplexity.errors import InputError


def refuses(words, call, *arguments, **options):
    """Assert that a call is refused in one line with these words, a pattern."""
    with pytest.raises(InputError, match=words) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
