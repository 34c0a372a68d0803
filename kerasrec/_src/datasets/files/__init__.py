"""Encoded trees and values of data types in files, and batches from these."""
