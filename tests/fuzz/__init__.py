"""Every decoder, with bytes that nobody wrote, for as long as one likes."""
