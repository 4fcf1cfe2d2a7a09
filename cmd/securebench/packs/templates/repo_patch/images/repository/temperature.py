"""Conversions of temperatures."""


def fahrenheit(celsius):
    """Return a temperature in degrees Fahrenheit."""
    return celsius * 5 / 9 + 32
