/**
 * Parses the address of a database: `sqlite:<path>` or `mysql://user:password@host:port/name`. Several servers of a
 * cluster are `host:port,host:port`; `?tls=true` may follow (`domain/mysql-tls.ts`). Errors never contain the address,
 * so they cannot contain its password.
 */

import { resolve } from 'node:path'
import { Fault } from '#domain/fault.ts'
import { type MysqlTls, readTlsOptions } from '#domain/mysql-tls.ts'
import type { ServerPlace } from './servers.ts'

export type DatabaseAddress =
  | { readonly dialect: 'sqlite'; readonly path: string }
  | (MysqlTls & {
      readonly dialect: 'mysql'
      readonly host: string
      readonly port: number
      /** Further servers of the cluster, after the first one. */
      readonly others?: readonly ServerPlace[]
      readonly user: string
      readonly password: string
      readonly name: string
    })

const SQLITE = 'sqlite:'
/** Groups of the pattern: the text before the servers, the first server, the other servers, the text after them. */
const SEVERAL = /^(mysql:\/\/(?:[^@/]*@)?)([^,/?#]*)((?:,[^,/?#]*)+)([/?#].*)?$/

export function parseDatabaseUrl(text: string): DatabaseAddress {
  if (text.startsWith(SQLITE)) return { dialect: 'sqlite', path: sqlitePath(text) }
  if (!/^mysql:\/\//.test(text)) throw invalid('it must start with sqlite: or mysql://')
  const [, before = '', first = text, more = '', after = ''] = SEVERAL.exec(text) ?? []
  let url: URL
  let others: ServerPlace[]
  try {
    url = new URL(`${before}${first}${after}`)
    others = more.split(',').slice(1).map(readPlace)
  } catch {
    // Leave out the cause: Node's error contains the whole URL with its password.
    throw invalid('it is not a valid URL')
  }
  let name: string, user: string, password: string
  try {
    name = decodeURIComponent(url.pathname.slice(1))
    user = decodeURIComponent(url.username)
    password = decodeURIComponent(url.password)
  } catch {
    throw invalid('a % sign in the address is not followed by two hex digits')
  }
  if (url.hostname === '') throw invalid('it has no host')
  if (!/^[A-Za-z0-9_$-]{1,64}$/.test(name))
    throw invalid('it must have the name of one database after the host')
  const place = placeOf(url)
  const hosts = [place, ...others].map(({ host }) => host)
  const tls = readTlsOptions(url.searchParams, hosts)
  if (typeof tls === 'string') throw invalid(tls)
  return {
    dialect: 'mysql',
    ...place,
    ...(others.length === 0 ? {} : { others }),
    user,
    password,
    name,
    ...tls,
  }
}

/** Returns whether several processes may write the database at the same time. A SQLite file belongs to one process. */
export function isShared(url: string): boolean {
  return parseDatabaseUrl(url).dialect === 'mysql'
}

/** Returns the address without its password. */
export function describeDatabaseUrl(text: string): string {
  const address = parseDatabaseUrl(text)
  if (address.dialect === 'sqlite') return `${SQLITE}${address.path}`
  const places = placesOf(address).map(({ host, port }) => `${host}:${port}`)
  return `mysql://${address.user}@${places.join(',')}/${address.name}`
}

/** Returns every server of the database URL, in order. */
export function placesOf(address: DatabaseAddress & { dialect: 'mysql' }): ServerPlace[] {
  const { host, port, others = [] } = address
  return [{ host, port }, ...others]
}

function placeOf({ hostname, port }: URL): ServerPlace {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return { host, port: port === '' ? 3306 : Number(port) }
}

function readPlace(text: string): ServerPlace {
  const place = placeOf(new URL(`mysql://${text}`))
  if (place.host === '' || /[@\s]/.test(text)) throw new Error('no server')
  return place
}

function sqlitePath(text: string): string {
  const path = text.slice(SQLITE.length)
  if (path === '') throw invalid('it has no file path')
  // Refuse a database in memory: each thread would open its own, and all data would be lost at exit.
  if (path.includes(':memory:')) throw invalid('a database in memory cannot be shared by threads')
  if (path.startsWith('//'))
    throw invalid('the address of a file must have the form sqlite:path or sqlite:/path')
  return resolve(path)
}

function invalid(why: string): Fault {
  return new Fault('STORE_URL_INVALID', `the database address is wrong: ${why}`, {
    retryable: false,
  })
}
