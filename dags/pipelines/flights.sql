-- Flights from New York's three airports in 2013, as they leave and arrive: the pipeline of `make demo`.
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
  day       AS to_date(from_utc_timestamp(planned, 'America/New_York')),

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

-- Arrivals, told by the airport that the flight had left, in the hour in which it arrived somewhere.
CREATE STREAM arrivals (
  arrived   TIMESTAMP NOT NULL,            -- UTC
  delay     INT,                           -- minutes, negative when early; NULL: diverted on its way
  carrier   STRING NOT NULL,
  flight    INT,
  tailnum   STRING,
  day       DATE NOT NULL,                 -- for which the departure was planned, in New York
  origin    STRING NOT NULL,

  WATERMARK FOR arrived AS arrived - INTERVAL '1' HOUR
) WITH (
  'connector' = 'files',
  'path' = '${DATA}/arrivals',
  'format' = 'csv',
  'watermark.idle-timeout' = '0'
);

-- The weather at each airport, once an hour and in order: it needs no lateness.
CREATE STREAM weather (
  observed   TIMESTAMP NOT NULL,           -- UTC
  origin     STRING NOT NULL,
  visibility DOUBLE,                       -- miles, 10 at most
  wind       DOUBLE,                       -- miles an hour

  WATERMARK FOR observed AS observed
) WITH (
  'connector' = 'files',
  'path' = '${DATA}/weather',
  'format' = 'csv',
  'watermark.idle-timeout' = '0'
);


-- Reference tables: small, versioned, replaced as a whole. Every batch sees one version of them, and the batch log
-- says which. `headrace refresh planes --from ${DATA}/planes_new.csv` publishes the next version while the
-- pipeline runs; planes.csv lacks the planes that were built in 2013.
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
--    departure; not every plane is known, hence the LEFT JOIN. Departures meet the version of `planes` that their
--    batch has pinned.
CREATE TABLE carrier_totals AS
  SELECT
    d.carrier,
    c.name,
    COUNT(d.delay)                        AS departures,
    COUNT(*) FILTER (WHERE d.cancelled)   AS cancellations,
    AVG(d.delay)                          AS mean_delay,
    MAX(d.delay)                          AS largest_delay,
    SUM(p.seats) FILTER (WHERE NOT d.cancelled) AS seats_flown,
    COUNT(*) FILTER (WHERE NOT d.cancelled AND p.tailnum IS NULL) AS unknown_planes
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


-- 4. What left with what arrived: the same flight of the same day with the same plane, within 24 hours. Both streams
--    are hashed by those keys into the same partitions, where each waits for the other: what arrives is often told
--    before LaGuardia has told what left. A flight that never arrives comes out once, with NULLs, when the
--    watermark of both says that it can't arrive in time any more.
CREATE TABLE flown AS
  SELECT
    d.day,
    d.carrier,
    d.flight,
    d.tailnum,
    d.origin,
    d.dest,
    d.departed,
    a.arrived,
    timestampdiff(MINUTE, d.departed, a.arrived) AS minutes,
    d.delay                               AS left_late,
    a.delay                               AS arrived_late,
    d.delay - a.delay                     AS made_up        -- minutes, in the air
  FROM departures AS d
  LEFT JOIN arrivals AS a
    ON d.carrier = a.carrier AND d.flight = a.flight AND d.day = a.day AND d.tailnum = a.tailnum
   AND d.origin = a.origin                -- one plane may leave two of the airports under one number on a day
   AND a.arrived BETWEEN d.departed AND d.departed + INTERVAL '24' HOUR
  WHERE NOT d.cancelled;


-- 5. Each departure with the newest reading of the weather at its airport: AS OF the moment when it left. It comes out
--    when the watermark has passed it, since no earlier reading can come then. A stream, to read on from.
CREATE STREAM in_weather AS
  SELECT d.departed, d.origin, d.delay, w.observed, w.visibility, w.wind
  FROM departures AS d
  ASOF LEFT JOIN weather AS w
    MATCH_CONDITION (d.departed >= w.observed)
    ON d.origin = w.origin
  WHERE NOT d.cancelled
  WITH ('join.tolerance' = '3h');         -- an older reading says nothing

--    And by month, as New York counts it, what one could see.
CREATE TABLE by_visibility AS
  SELECT
    CASE
      WHEN visibility >= 10 THEN '10 miles'
      WHEN visibility >= 3 THEN '3 to 10'
      WHEN visibility >= 1 THEN '1 to 3'
      WHEN visibility < 1 THEN 'under 1'
      ELSE 'not told'
    END                                   AS visibility,
    window_start,
    window_end,
    COUNT(*)                              AS departures,
    AVG(delay)                            AS mean_delay,
    AVG(wind)                             AS mean_wind
  FROM in_weather
  GROUP BY 1
  WINDOW TUMBLING(departed, INTERVAL '1' MONTH, TIME ZONE 'America/New_York')
  EMIT FINAL;
