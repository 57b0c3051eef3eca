-- Settings of a transaction: its limit, and the formats of values, from which versions are computed.
SET LOCAL statement_timeout = {timeout_milliseconds};
SET LOCAL datestyle = 'ISO, YMD';
SET LOCAL intervalstyle = 'iso_8601';
SET LOCAL timezone = 'UTC';
SET LOCAL extra_float_digits = 1;
SET LOCAL bytea_output = 'hex';
SET LOCAL lc_monetary = 'C';
