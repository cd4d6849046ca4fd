"""The one thing setup.cfg cannot say: packages that live under three roots. Everything else is there."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages("spark_jobs", include=["headrace", "headrace.*"]),
        *find_packages("plugins", include=["headrace_airflow", "headrace_airflow.*"]),
        *find_packages(".", include=["expectations", "expectations.*"]),
    ]
)
