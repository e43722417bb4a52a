"""What a comparison may claim: randomizations, verdicts, limits, families of tests."""
