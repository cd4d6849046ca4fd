-- Departures from New York's three airports in 2013, as they happen: the pipeline of `make demo`.
-- Input comes from `headrace demo --prepare-only`; run it with `--set DATA=<folder>`.

SET 'pipeline.name' = 'flights';

-- N: every key of every result lives in one of 4 hash partitions. No answer depends on it.
SET 'state.partitions' = '4';


-- A stream never ends. Each airport is a source partition of its own, a folder `partition=EWR` and so on,
-- and is read in the order of its file names.
CREATE STREAM departures (
  planned   TIMESTAMP NOT NULL,            -- UTC
  delay     INT,                           -- minutes, negative when early; NULL: the flight was cancelled
  carrier   STRING NOT NULL,
  flight    INT,
  tailnum   STRING,
  origin    STRING NOT NULL,
  dest      STRING NOT NULL,
  distance  INT,                           -- miles

  -- Computed columns: when it really left, or was to leave where it never did.
  departed  AS planned + coalesce(delay, 0) * INTERVAL '1' MINUTE,
  cancelled AS delay IS NULL,

  -- Event time is `departed`. An airport reports once an hour, in the order of its timetable, so its own rows
  -- are out of order by less than an hour. LaGuardia's reports come a whole day after the others': that needs
  -- no lateness at all, because each partition has a mark of its own and the slowest one counts.
  WATERMARK FOR departed AS departed - INTERVAL '1' HOUR
) WITH (
  'connector' = 'files',
  'path' = '${DATA}/departures',
  'format' = 'csv',
  -- A silent airport is behind, not finished: never go on without it.
  'watermark.idle-timeout' = '0'
);


-- Reference tables: small, versioned, replaced as a whole. Every batch sees one version of them.
CREATE TABLE carriers (
  carrier STRING,
  name    STRING,
  PRIMARY KEY (carrier)
) WITH ('connector' = 'files', 'path' = '${DATA}/carriers.csv', 'format' = 'csv', 'csv.header' = 'true');

CREATE TABLE planes (
  tailnum      STRING,
  manufacturer STRING,
  model        STRING,
  seats        INT,
  PRIMARY KEY (tailnum)
) WITH ('connector' = 'files', 'path' = '${DATA}/planes.csv', 'format' = 'csv', 'csv.header' = 'true');

CREATE TABLE airports (
  faa   STRING,
  name  STRING,
  lat   DOUBLE,
  lon   DOUBLE,
  tzone STRING,
  PRIMARY KEY (faa)
) WITH ('connector' = 'files', 'path' = '${DATA}/airports.csv', 'format' = 'csv', 'csv.header' = 'true');


-- 1. Every hour of every airport and carrier. Partitioned by the hash of the group key, the window included.
--    FINAL: a row is written once, when the watermark passes the end of its hour, and never changes.
CREATE TABLE hourly AS
  SELECT
    d.origin,
    a.name                                AS airport,
    d.carrier,
    window_start,
    window_end,
    COUNT(d.delay)                        AS departures,
    COUNT(*) FILTER (WHERE d.cancelled)   AS cancellations,
    AVG(d.delay)                          AS mean_delay,    -- NULL where nothing left
    MAX(d.delay)                          AS largest_delay
  FROM departures AS d
  JOIN airports AS a ON d.origin = a.faa
  GROUP BY d.origin, a.name, d.carrier
  WINDOW TUMBLING(INTERVAL '1' HOUR)
  EMIT FINAL;


-- 2. Running totals of each carrier, by name. CHANGES: each batch upserts the carriers that it touched, so the
--    table shows the newest totals at any time. Small reference tables are broadcast, so the joins move no
--    departure; not every plane is known, hence the LEFT JOIN.
CREATE TABLE carrier_totals AS
  SELECT
    d.carrier,
    c.name,
    COUNT(d.delay)                        AS departures,
    COUNT(*) FILTER (WHERE d.cancelled)   AS cancellations,
    AVG(d.delay)                          AS mean_delay,
    MAX(d.delay)                          AS largest_delay,
    SUM(p.seats) FILTER (WHERE NOT d.cancelled) AS seats_flown
  FROM departures AS d
  JOIN carriers AS c ON d.carrier = c.carrier
  LEFT JOIN planes AS p ON d.tailnum = p.tailnum
  GROUP BY d.carrier, c.name
  EMIT CHANGES;


-- 3. Totals of each day over everything. There is no key to hash by, so it runs in two phases: each task
--    folds its own rows, and one merge per day adds the parts up. A New York day begins at 05:00 UTC (01:00 by
--    its summer clock, when hardly anything leaves).
CREATE TABLE daily AS
  SELECT
    window_start,
    window_end,
    COUNT(d.delay)                        AS departures,
    COUNT(*) FILTER (WHERE d.cancelled)   AS cancellations,
    AVG(d.delay)                          AS mean_delay,
    MAX(d.delay)                          AS largest_delay,
    SUM(d.distance) FILTER (WHERE NOT d.cancelled) AS miles
  FROM departures AS d
  GROUP BY WINDOW TUMBLING(INTERVAL '1' DAY, OFFSET INTERVAL '5' HOUR)
  EMIT FINAL;
