/**
 * Turns the declaration of a table into the statements of each dialect.
 *
 * A type is a MySQL type, or a name in `MYSQL_TYPES`. For SQLite, each type becomes `integer`, `text` or `blob`. The
 * tables are strict, so SQLite rejects values of another type. A column is not null unless it is declared null. Amounts
 * of a chain have 256 bits and are decimal text; `total_shares_e6` has leading zeros, so that text sorts like the
 * amounts. There are no foreign keys, because the log is the source of truth, and its content was checked.
 *
 * MySQL commits every schema change immediately, and a migration that was killed half way must be able to run again. So
 * one statement creates a table with its indexes, and this statement can be repeated. InnoDB stores a table in the
 * order of its primary key and repeats that key in every other index. If a random hash were the primary key, each new
 * order would change a random page. So `numbered` tables have a row number as their key on MySQL.
 */

export type Dialect = 'sqlite' | 'mysql'

/**
 * Columns of an index. A pair has one text per dialect, because only SQLite can leave rows out of an index (with
 * `where`).
 */
type Index = string | readonly [sqlite: string, mysql: string]

export type Table = {
  readonly columns: string
  readonly key?: string
  /** Name of the unique index over `key` if rows are numbered. */
  readonly numbered?: string
  readonly mysqlColumn?: string
  readonly withoutRowid?: boolean
  readonly unique?: Readonly<Record<string, Index>>
  readonly indexes?: Readonly<Record<string, Index>>
}

const UNICODE = 'character set utf8mb4 collate utf8mb4_bin'
const MYSQL_TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'
const MYSQL_TYPES: Readonly<Record<string, string>> = {
  hash: 'binary(32)',
  address: 'binary(20)',
  amount: 'varchar(79)',
  bool: 'tinyint(1)',
  words: `mediumtext ${UNICODE}`,
  bytes: 'mediumblob',
}

function typeOf(dialect: Dialect, type: string): string {
  if (dialect === 'mysql') {
    return MYSQL_TYPES[type] ?? type.replace(/^words(\(\d+\))$/, `varchar$1 ${UNICODE}`)
  }
  if (/^(hash|address|binary|blob|bytes)/.test(type)) return 'blob'
  return /int$|^bool$/.test(type) ? 'integer' : 'text'
}

function columnOf(dialect: Dialect, column: string): string {
  const [name = '', type = '', nullable = 'not null'] = column.trim().split(/\s+/)
  if (type !== 'serial') return `${name} ${typeOf(dialect, type)} ${nullable}`
  return dialect === 'mysql'
    ? `${name} bigint not null auto_increment primary key`
    : `${name} integer not null primary key autoincrement`
}

export function tableStatements(dialect: Dialect, name: string, table: Table): string[] {
  const { columns, key, numbered, mysqlColumn, withoutRowid, unique = {}, indexes = {} } = table
  const parts = columns.split(',').map((column) => columnOf(dialect, column))
  const all = [
    ...Object.entries(unique).map((entry) => ['unique index', ...entry] as const),
    ...Object.entries(indexes).map((entry) => ['index', ...entry] as const),
  ]
  if (dialect === 'sqlite') {
    if (key !== undefined) parts.push(`primary key (${key})`)
    return [
      `create table if not exists ${name} (${parts.join(', ')}) strict${withoutRowid ? ', without rowid' : ''}`,
      ...all.map(([kind, index, on]) => {
        const [columns] = typeof on === 'string' ? [on] : on
        return `create ${kind} if not exists ${index} on ${name} ${columns}`
      }),
    ]
  }
  if (mysqlColumn !== undefined) parts.push(mysqlColumn)
  if (numbered !== undefined) {
    parts.unshift('row_no bigint unsigned not null auto_increment primary key')
    parts.push(`unique index ${numbered} (${key})`)
  } else if (key !== undefined) parts.push(`primary key (${key})`)
  for (const [kind, index, on] of all) {
    parts.push(`${kind} ${index} ${typeof on === 'string' ? on : on[1]}`)
  }
  return [`create table if not exists ${name} (${parts.join(', ')}) ${MYSQL_TABLE}`]
}
