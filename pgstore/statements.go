package pgstore

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sessionstore/sessionstore/internal/pgutil"
)

// names are the quoted names of the tables.
type names struct {
	schema      string // unquoted; empty: by search_path
	transcripts string
	entries     string
	versions    string
	mainIndex   string // never qualified: an index lives beside its table
	tag         string // begins the tags of dollar quotes; in none of the names
}

func newNames(o Options) (names, error) {
	n := names{schema: o.Schema}
	table := func(name string) string { return pgutil.Quote(o.Schema, o.TablePrefix+name) }
	n.transcripts, n.entries, n.versions = table("transcripts"), table("entries"), table("versions")
	n.mainIndex = pgutil.Quote("", o.TablePrefix+"main_transcripts")
	for field, name := range map[string]string{"Schema": o.Schema, "TablePrefix": o.TablePrefix + "main_transcripts"} {
		if err := pgutil.CheckName(field, name); err != nil {
			return n, err
		}
	}
	n.tag = pgutil.AbsentTag(o.Schema + " " + o.TablePrefix)
	return n, nil
}

// fill puts the names into the text of a statement, in one pass: what looks like
// a placeholder in a name stays.
func (n names) fill(sql string) string {
	return strings.NewReplacer(
		"{transcripts}", n.transcripts,
		"{entries}", n.entries,
		"{versions}", n.versions,
		"{main_index}", n.mainIndex,
		"{schema}", n.schema,
		"{quoted_schema}", pgx.Identifier{n.schema}.Sanitize(),
		"{tag}", n.tag,
	).Replace(sql)
}

// statements are the texts of all statements of a [Store] but those of
// [Store.Migrate].
type statements struct {
	append, load, window, version                                       string
	listSessions, listSummaries, listProjects, listSubkeys, listOrphans string
	lockSession, deleteEntries, deleteTranscripts                       string
	lockSessions, purgeable, purgeEntries, purge                        string
}

func newStatements(n names) statements {
	const mains, newestFirst = ` FROM {transcripts} WHERE project = $1 AND subpath = ''`, ` ORDER BY mtime DESC, session`
	return statements{
		append:            n.fill(appendSQL),
		load:              n.fill(loadSQL),
		window:            n.fill(windowSQL),
		version:           n.fill(`SELECT max(version), max(requires), ` + settingsColumns + ` FROM {versions}`),
		listSessions:      n.fill(`SELECT session, mtime` + mains + newestFirst),
		listSummaries:     n.fill(`SELECT mtime::text, session, ` + summaryColumns("") + mains + newestFirst),
		listProjects:      n.fill(listProjectsSQL),
		listSubkeys:       n.fill(`SELECT subpath FROM {transcripts} WHERE project = $1 AND session = $2 AND subpath <> '' ORDER BY subpath`),
		listOrphans:       n.fill(listOrphansSQL),
		lockSession:       pgutil.AdvisoryLock,
		deleteEntries:     n.fill(`DELETE FROM {entries} WHERE transcript IN (SELECT id FROM {transcripts} WHERE ` + keyOrSession + `)`),
		deleteTranscripts: n.fill(`DELETE FROM {transcripts} WHERE ` + keyOrSession),
		purgeable:         n.fill(purgeableSQL),
		lockSessions:      `SELECT pg_advisory_xact_lock(l) FROM unnest($1::bigint[]) AS l`,
		purgeEntries:      n.fill(`DELETE FROM {entries} WHERE transcript IN (` + oldSessions + `)`),
		purge:             n.fill(`DELETE FROM {transcripts} WHERE id IN (` + oldSessions + `) RETURNING subpath = ''`),
	}
}

const (
	// keyOrSession selects one transcript, or a session by its main key.
	keyOrSession = `project = $1 AND session = $2 AND ($3 = '' OR subpath = $3)`

	// oldSessions are the transcripts of those of the sessions $1 that are still
	// older than $2.
	oldSessions = `SELECT t.id FROM {transcripts} AS m, {transcripts} AS t
  WHERE m.id = ANY($1::bigint[]) AND m.mtime < $2 AND t.project = m.project AND t.session = m.session`

	// purgeableSQL finds sessions by the row of the main transcript: older than
	// $1, behind the id $2, at most $3, with the number of their entries.
	purgeableSQL = `
SELECT m.id, m.project, m.session, (
  SELECT sum(t.entries)::bigint FROM {transcripts} AS t WHERE t.project = m.project AND t.session = m.session
)
FROM {transcripts} AS m
WHERE m.subpath = '' AND m.mtime < $1 AND m.id > $2
ORDER BY m.id LIMIT $3`

	listOrphansSQL = `
SELECT DISTINCT session FROM {transcripts} AS t
WHERE project = $1 AND subpath <> '' AND NOT EXISTS (
  SELECT FROM {transcripts} AS m WHERE m.project = t.project AND m.session = t.session AND m.subpath = ''
)
ORDER BY session`

	// clock is the server's time in whole milliseconds.
	clock = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
)

// appendSQL appends a batch: $1 to $3 are the key, $4 the lock of the session,
// $5 the identities of the entries, $6 the entries, $7 and $8 how many they are
// and their bytes, $9 what they all contribute to the summary, $10 to $13 what
// each of them does. It returns false if it has done nothing because somebody
// else was just creating the transcript.
//
//   - lock keeps deletions of the session away until the commit: shared, so that
//     the writers of a session don't wait for each other.
//   - old is the row of the transcript. The row lock makes the writers of one
//     transcript follow each other; having waited, one sees the row as the
//     other has left it.
//   - new creates the transcript if there was no row. Everything will be added
//     to it, so it is written once, complete.
//   - added are the entries that are really new. The unique index decides, not
//     the snapshot of the statement, which may be older than the row lock.
//   - delta is what they contribute to the summary, like $9. Nearly always it is
//     $9; counting are the single contributions that count otherwise.
//   - The UPDATE completes an old row. Where that has changed since the snapshot,
//     PostgreSQL looks again whether it still fits; it takes the row of merged
//     as it is then and does not run the statements before it again.
var appendSQL = `
WITH lock AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared($4)
), old AS MATERIALIZED (
  SELECT t.id, t.last_position, t.entries, t.bytes, t.mtime, ` + summaryColumns("t.") + `
  FROM lock, {transcripts} AS t
  WHERE t.project = $1 AND t.session = $2 AND t.subpath = $3
  FOR NO KEY UPDATE OF t
), summary AS MATERIALIZED (
  SELECT $9::text[] AS v
), new AS (
  INSERT INTO {transcripts} (project, session, subpath, last_position, entries, bytes, mtime, ` + summaryColumns("") + `)
  SELECT $1, $2, $3, $7, $7, $8, ` + clock + `, ` + summaryCreate + `
  FROM lock, summary
  WHERE NOT EXISTS (SELECT FROM old)
  ON CONFLICT (project, session, subpath) DO NOTHING
  RETURNING id
), head AS (
  SELECT id, last_position FROM old UNION ALL SELECT id, 0 FROM new
), added AS (
  INSERT INTO {entries} (transcript, position, dedupe, size, entry)
  SELECT head.id, head.last_position + b.i, b.dedupe, octet_length(b.entry), b.entry::json
  FROM head, unnest($5::uuid[], $6::text[]) WITH ORDINALITY AS b (dedupe, entry, i)
  ON CONFLICT (transcript, dedupe) DO NOTHING
  RETURNING position, size
), total AS MATERIALIZED (
  SELECT count(*) AS entries, sum(size) AS bytes FROM added
), counting AS MATERIALIZED (
  SELECT added.position - old.last_position AS i, e.field, e.value
  FROM old, added, unnest($10::int4[], $11::int4[], $12::int4[], $13::text[]) AS e (a, z, field, value)
  WHERE added.position - old.last_position BETWEEN e.a AND e.z
), delta AS MATERIALIZED (
  SELECT CASE WHEN total.entries = $7 THEN summary.v ELSE ` + summaryFold + ` END AS v
  FROM summary, total
), merged AS MATERIALIZED (
  SELECT old.id, old.last_position + $7 AS last_position, old.entries + total.entries AS entries,
    old.bytes + total.bytes AS bytes, greatest(old.mtime, ` + clock + `) AS mtime, ` + summaryMerge + `
  FROM old, total, delta
  WHERE total.entries > 0
), changed AS (
  UPDATE {transcripts} AS t SET
    (last_position, entries, bytes, mtime, ` + summaryColumns("") + `) =
    ROW (m.last_position, m.entries, m.bytes, m.mtime, ` + summaryColumns("m.") + `)
  FROM merged AS m WHERE t.id = m.id
)
SELECT EXISTS (SELECT FROM head)`

// loadSQL gives, as position 0, what is known of the transcript as
// [id, entries, bytes, last position], and then its entries; nothing at all if
// there is no transcript.
const loadSQL = `
WITH t AS MATERIALIZED (
  SELECT id, entries, bytes, last_position FROM {transcripts} WHERE project = $1 AND session = $2 AND subpath = $3
)
SELECT position, entry FROM (
  SELECT 0::bigint AS position, json_build_array(id, entries, bytes, last_position) AS entry FROM t
  UNION ALL
  SELECT position, entry FROM {entries} WHERE transcript = (SELECT id FROM t)
) AS r ORDER BY position`

// windowSQL is loadSQL for a part: of the transcript with the id $4, unless it
// is 0, the entries behind position $5 up to $6, at most $7 of them, and none
// that begins beyond $8 bytes.
const windowSQL = `
WITH t AS MATERIALIZED (
  SELECT id, entries, bytes, last_position FROM {transcripts}
  WHERE project = $1 AND session = $2 AND subpath = $3 AND $4::bigint IN (0, id)
)
SELECT position, entry FROM (
  SELECT 0::bigint AS position, json_build_array(id, entries, bytes, last_position) AS entry FROM t
  UNION ALL
  SELECT position, entry FROM (
    SELECT position, entry, sum(size) OVER (ORDER BY position) - size AS start
    FROM (
      SELECT position, size, entry FROM {entries}
      WHERE transcript = (SELECT id FROM t) AND position > $5 AND position <= $6
      ORDER BY position LIMIT $7
    ) AS few
  ) AS summed
  WHERE start < $8
) AS r ORDER BY position`

// listProjectsSQL jumps from project to project in the index.
const listProjectsSQL = `
WITH RECURSIVE p AS (
  (SELECT project FROM {transcripts} ORDER BY project LIMIT 1)
  UNION ALL
  SELECT (SELECT t.project FROM {transcripts} AS t WHERE t.project > p.project ORDER BY t.project LIMIT 1)
  FROM p WHERE p.project IS NOT NULL
)
SELECT project FROM p WHERE project IS NOT NULL`
