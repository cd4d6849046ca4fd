"""Headrace in Airflow: the one operator that submits its doors, and the Params that DAGs share."""
