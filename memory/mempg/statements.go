package mempg

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sessionstore/sessionstore/internal/pgutil"
)

// names are the quoted names of the tables.
type names struct {
	schema   string // unquoted; empty: by search_path
	files    string
	versions string
	tag      string // begins the tags of dollar quotes; in none of the names
}

func newNames(o Options) (names, error) {
	table := func(name string) string { return pgutil.Quote(o.Schema, o.TablePrefix+name) }
	n := names{
		schema: o.Schema, files: table("memory_files"), versions: table("memory_versions"),
		tag: pgutil.AbsentTag(o.Schema + " " + o.TablePrefix),
	}
	for field, name := range map[string]string{"Schema": o.Schema, "TablePrefix": o.TablePrefix + "memory_versions_pkey"} {
		if err := pgutil.CheckName(field, name); err != nil {
			return n, err
		}
	}
	return n, nil
}

// fill puts the names into the text of a statement, in one pass.
func (n names) fill(sql string) string {
	return strings.NewReplacer(
		"{files}", n.files,
		"{versions}", n.versions,
		"{schema}", n.schema,
		"{quoted_schema}", pgx.Identifier{n.schema}.Sanitize(),
		"{tag}", n.tag,
	).Replace(sql)
}

// statements are the texts of all statements but those of [Store.Migrate].
type statements struct {
	read, touch, list, create, replace, delete, rename, expire, version string
}

func newStatements(n names) statements {
	return statements{
		read: n.fill(`
SELECT version, used, octet_length(content), CASE WHEN $3::bigint <= 0 OR octet_length(content) <= $3::bigint THEN content END
FROM {files} WHERE scope = $1::bytea AND path = $2::bytea`),
		touch: n.fill(`
UPDATE {files} SET used = $4::timestamptz
WHERE scope = $1::bytea AND path = $2::bytea AND version = $3::text AND used < $4::timestamptz`),
		list: n.fill(`
SELECT path, octet_length(content), used FROM {files}
WHERE scope = $1::bytea AND (` + at("$2") + `) ORDER BY path`),
		create:  n.fill(createSQL),
		replace: n.fill(replaceSQL),
		delete: n.fill(`
WITH gone AS (
  DELETE FROM {files} WHERE scope = $1::bytea AND (` + at("$2") + `) RETURNING 1
)
SELECT CASE WHEN EXISTS (SELECT FROM gone) THEN 'OK' ELSE 'NOTFOUND' END`),
		rename:  n.fill(renameSQL),
		expire:  n.fill(`DELETE FROM {files} WHERE scope = $1::bytea AND used < $2::timestamptz RETURNING path`),
		version: n.fill(`SELECT coalesce(max(version), 0), coalesce(max(requires), 0) FROM {versions}`),
	}
}

// at selects the files at a path or below it. Bytes sort as bytes, and what
// follows the slash is the zero.
func at(path string) string {
	p := path + "::bytea"
	return `path = ` + p + ` OR path >= ` + p + ` || '/'::bytea AND path < ` + p + ` || '0'::bytea`
}

// aboveSQL selects the files that are in the place of a directory: those whose
// paths are in a text, with a line feed around each.
func aboveSQL(list string) string {
	return `position('\x0a'::bytea || path || '\x0a'::bytea IN ` + list + `::bytea) > 0`
}

// createSQL stores a new file: $1 scope, $2 path, $3 content, $4 version, $5
// now, $6 and $7 the limits of files and bytes (0: none), $8 the directories
// above.
var createSQL = `
WITH state AS MATERIALIZED (
  SELECT count(*) AS files, coalesce(sum(octet_length(content)), 0) AS bytes,
    coalesce(bool_or(` + at("$2") + `), false) AS taken, coalesce(bool_or(` + aboveSQL("$8") + `), false) AS blocked
  FROM {files} WHERE scope = $1::bytea
), verdict AS MATERIALIZED (
  SELECT CASE
    WHEN blocked THEN 'NOTDIRECTORY'
    WHEN taken THEN 'EXISTS'
    WHEN $6::bigint > 0 AND files + 1 > $6::bigint THEN 'LIMIT'
    WHEN $7::bigint > 0 AND octet_length($3::bytea) > 0 AND bytes + octet_length($3::bytea) > $7::bigint THEN 'LIMIT'
    ELSE 'OK' END AS text
  FROM state
), new AS (
  INSERT INTO {files} (scope, path, content, version, written, used)
  SELECT $1::bytea, $2::bytea, $3::bytea, $4::text, $5::timestamptz, $5::timestamptz FROM verdict WHERE text = 'OK'
)
SELECT text FROM verdict`

// replaceSQL replaces a file: $1 scope, $2 path, $3 content, $4 version, $5 now,
// $6 the limit of bytes, $7 the version that must be there.
const replaceSQL = `
WITH old AS MATERIALIZED (
  SELECT octet_length($3::bytea) - octet_length(content) AS more
  FROM {files} WHERE scope = $1::bytea AND path = $2::bytea AND version = $7::text
), verdict AS MATERIALIZED (
  SELECT CASE
    WHEN NOT EXISTS (SELECT FROM old) THEN 'CONFLICT'
    WHEN $6::bigint > 0 AND (SELECT more FROM old) > 0 AND (SELECT more FROM old) + (
      SELECT sum(octet_length(content)) FROM {files} WHERE scope = $1::bytea
    ) > $6::bigint THEN 'LIMIT'
    ELSE 'OK' END AS text
), changed AS (
  UPDATE {files} SET content = $3::bytea, version = $4::text, written = $5::timestamptz, used = $5::timestamptz
  WHERE scope = $1::bytea AND path = $2::bytea AND (SELECT text FROM verdict) = 'OK'
)
SELECT text FROM verdict`

// renameSQL renames: $1 scope, $2 from, $3 to, $4 the directories above to.
var renameSQL = `
WITH state AS MATERIALIZED (
  SELECT coalesce(bool_or(` + at("$2") + `), false) AS there, coalesce(bool_or(` + at("$3") + `), false) AS taken,
    coalesce(bool_or(` + aboveSQL("$4") + `), false) AS blocked
  FROM {files} WHERE scope = $1::bytea
), verdict AS MATERIALIZED (
  SELECT CASE WHEN NOT there THEN 'NOTFOUND' WHEN blocked THEN 'NOTDIRECTORY' WHEN taken THEN 'EXISTS' ELSE 'OK' END AS text
  FROM state
), moved AS (
  UPDATE {files} SET path = $3::bytea || substr(path, octet_length($2::bytea) + 1)
  WHERE scope = $1::bytea AND (` + at("$2") + `) AND (SELECT text FROM verdict) = 'OK'
)
SELECT text FROM verdict`
