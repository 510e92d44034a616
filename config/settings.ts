/**
 * Reads the settings that `settings-schema.ts` lists. This is the only file that reads the environment. Values come
 * from three places, and the later one wins: `default.ts`, the profile (`devnet.ts` or `production.ts`, chosen by
 * SIBYL_PROFILE), the environment. A wrong or unknown setting stops the start with one line that names it; the value of
 * a secret is never shown.
 */

import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { availableParallelism } from 'node:os'
import type { TSchema } from 'typebox'
import { Errors } from 'typebox/value'
import { BATCH_ORDERS_MAX } from '#domain/limits.ts'
import { nearestName } from '#domain/nearest-name.ts'
import { COMMAND_VARIABLES } from './command-environment.ts'
import { defaults } from './default.ts'
import { devnet } from './devnet.ts'
import { hideUrlSecrets } from './hidden-urls.ts'
import { production } from './production.ts'
import { ClusterKey, Key, PATTERN_WORDS } from './schema/patterns.ts'
import { type Profile, type Settings, SettingsSchema } from './settings-schema.ts'
import { threadsFor } from './topology.ts'

/** Error about the settings. Its message has one line per problem, and each line names the setting. */
export class SettingsError extends Error {}

export const PROFILES: Record<string, Profile> = { default: {}, devnet, production }

/** Environment variables of this process, the default source of settings. */
export const environment: Readonly<Record<string, string | undefined>> = process.env

/** Schema of a setting with its annotations. */
type Leaf = TSchema & {
  env: string
  unit?: string
  secret?: boolean
  description: string
  type?: string
}

/** Returns the path of every setting (`front.port`) and its schema. */
export function settingsList(): { path: string; leaf: Leaf }[] {
  const list: { path: string; leaf: Leaf }[] = []
  const walk = (schema: TSchema, path: string): void => {
    const properties = (schema as { properties?: Record<string, TSchema> }).properties ?? {}
    for (const [name, child] of Object.entries(properties)) {
      const childPath = path === '' ? name : `${path}.${name}`
      if ('env' in child) list.push({ path: childPath, leaf: child as Leaf })
      else walk(child, childPath)
    }
  }
  walk(SettingsSchema, '')
  return list
}

export function loadSettings(
  env: Readonly<Record<string, string | undefined>> = environment,
): Settings {
  const list = settingsList()
  const known = new Map(list.map((entry) => [entry.leaf.env, entry]))
  // Lists all problems at once, so that the operator can fix them before the next start.
  const problems: string[] = []
  for (const name of Object.keys(env)) {
    const isOthers = name.startsWith('SIBYL_TEST_') || COMMAND_VARIABLES.has(name)
    if (name.startsWith('SIBYL_') && !isOthers && !known.has(name)) {
      const meant = nearestName(name, known.keys())
      const hint = meant === undefined ? 'npm run settings lists all' : `did you mean ${meant}?`
      problems.push(`${name}: there is no such setting; ${hint}`)
    }
  }
  const profileName = env.SIBYL_PROFILE ?? 'devnet'
  const profile = PROFILES[profileName]
  if (profile === undefined) {
    const names = Object.keys(PROFILES).join(', ')
    problems.push(`SIBYL_PROFILE: must be one of ${names}, but it is "${profileName}"`)
  }
  const settings = structuredClone(defaults) as unknown as Record<string, unknown>
  merge(settings, (profile ?? {}) as Record<string, unknown>)
  for (const { path, leaf } of list) {
    const text = env[leaf.env]
    if (text === undefined) continue
    const read = readSetting(text, leaf)
    if ('problem' in read) problems.push(read.problem)
    else put(settings, path, read.value)
  }
  if (problems.length > 0) throw new SettingsError(problems.join('\n'))
  for (const { path, leaf } of list) {
    const problem = problemOf(leaf, valueAt(settings, path))
    if (problem !== undefined) throw new SettingsError(`${path} (${leaf.env}): ${problem}`)
  }
  checkNode(settings as unknown as Settings)
  const checked = followCores(settings as unknown as Settings, availableParallelism())
  checkTogether(checked)
  return checked
}

/** Reads a setting from its text, or returns the problem. */
function readSetting(text: string, leaf: Leaf): { value: unknown } | { problem: string } {
  try {
    const value = parseText(leaf.secret ? withKeyFiles(text, leaf) : text, leaf)
    const problem = problemOf(leaf, value)
    if (problem === undefined) return { value }
    const shown = leaf.secret ? '' : `, but it is ${JSON.stringify(hideUrlSecrets(text))}`
    return { problem: `${leaf.env}: ${problem}${shown}` }
  } catch (error) {
    if (error instanceof SettingsError) return { problem: error.message }
    throw error
  }
}

/** Sets the thread counts that the operator did not give, from the number of cores. */
function followCores(settings: Settings, cores: number): Settings {
  const { front, markets, verify, risk, cluster } = settings
  const counts = threadsFor(cores)
  return {
    ...settings,
    front: { ...front, threads: front.threads || counts.front },
    markets: {
      ...markets,
      threads: markets.threads || Math.min(counts.market, markets.partitions),
    },
    verify: { threads: verify.threads || counts.verify },
    // All nodes of a cluster need the same number of accounts threads, but may have different numbers of cores. So the
    // default in a cluster is 1.
    risk: {
      ...risk,
      threads: risk.threads || (cluster.roles.includes('all') ? counts.accounts : 1),
    },
  }
}

/** Checks rules that involve several settings. */
function checkTogether(settings: Settings): void {
  const { front, auth, limits, markets } = settings
  for (const proxy of front.trustedProxies) {
    const [address = '', bits = '0'] = proxy.split('/')
    if (isIP(address) === 0 || Number(bits) > (isIP(address) === 4 ? 32 : 128)) {
      throw new SettingsError(
        `SIBYL_TRUSTED_PROXIES: ${proxy} must be an IP address or a range of addresses, such as 10.0.0.0/8`,
      )
    }
  }
  const proxied = front.trustedProxies.length > 0
  if (!auth.bearer && !auth.allowOpenWrites && (proxied || !isLoopback(front.host))) {
    const way = proxied ? 'the exchange through its proxy' : front.host
    throw new SettingsError(
      `SIBYL_AUTH_BEARER: must be true, because other machines can reach ${way}; ` +
        'to accept writes without tokens, set SIBYL_ALLOW_OPEN_WRITES=true',
    )
  }
  if (auth.nonces === 'database' && !settings.database.url.startsWith('mysql:')) {
    throw new SettingsError(
      'SIBYL_NONCES: the value "database" requires MySQL, which several exchanges can share: set SIBYL_DATABASE_URL=mysql://…',
    )
  }
  const { transparency } = settings
  if (transparency.mode === 'on' && !transparency.keys.some((key) => key !== '')) {
    throw new SettingsError(
      'SIBYL_TRANSPARENCY_KEYS: must have a key if the log is public; a key is 0x followed by the output of openssl rand -hex 32',
    )
  }
  for (const [name, burst] of [
    ['SIBYL_LIMIT_IP_BURST', limits.ipBurst],
    ['SIBYL_LIMIT_KEY_BURST', limits.keyBurst],
  ] as const) {
    const dearest = Math.max(limits.writeCost * BATCH_ORDERS_MAX, limits.registrationCost)
    if (limits.enabled && burst < dearest) {
      throw new SettingsError(
        `${name}: ${burst} is too low: it must be at least ${dearest}, the highest cost of one request`,
      )
    }
  }
  if (settings.chainRpc.length > 0 && settings.chains.length !== 1) {
    throw new SettingsError(
      `SIBYL_CHAIN_RPC: requires exactly one chain, but SIBYL_CHAINS has ${settings.chains.length}: set the rpcUrls of each chain in SIBYL_CHAINS instead`,
    )
  }
  if (markets.threads > markets.partitions) {
    throw new SettingsError(
      `SIBYL_MARKET_THREADS: ${markets.threads} threads cannot share the ${markets.partitions} ` +
        'partitions of SIBYL_LOG_PARTITIONS: each thread needs at least one partition',
    )
  }
  for (const [market, partition] of Object.entries(markets.pins)) {
    if (!/^0x[0-9a-f]{64}$/.test(market)) {
      throw new SettingsError(
        `SIBYL_MARKET_PINS: ${market} must be a market id, 0x and 64 lower-case hexadecimal digits`,
      )
    }
    if (partition >= markets.partitions) {
      throw new SettingsError(
        `SIBYL_MARKET_PINS: ${market} is pinned to partition ${partition}; the partitions are 0 to ${markets.partitions - 1}`,
      )
    }
  }
}

/** Returns a line for each combination of settings that is allowed but probably not intended. */
export function settingsWarnings({ eventLog, database, data }: Settings): string[] {
  if (eventLog.url === '' || database.url !== '') return []
  return [
    'SIBYL_LOG_URL is set and SIBYL_DATABASE_URL is not: the event log outlives this machine, the ' +
      `database in ${data.dir} does not, and what is only there (API keys, the journal of transactions) is ` +
      'lost with it; set SIBYL_DATABASE_URL to a server too',
  ]
}

/**
 * Checks the cluster settings. If a node has only some roles, it needs the settings that connect it to other nodes. A
 * node with all roles needs none of them.
 */
function checkNode(settings: Settings): void {
  const { cluster, eventLog, database, markets, devnet, chains, chainRpc } = settings
  const { roles, node, natsUrl } = cluster
  if (roles.includes('all')) {
    if (roles.length > 1) {
      throw new SettingsError(
        'SIBYL_ROLES: must be either "all", which includes every role, or a list of single roles',
      )
    }
    if (natsUrl !== '') {
      throw new SettingsError(
        'SIBYL_NATS_URL: has no effect while SIBYL_ROLES is "all": remove it, or set SIBYL_ROLES to single roles',
      )
    }
    return
  }
  const named = `SIBYL_ROLES is ${roles.join(',')}`
  const missing = [
    ...(node === '' ? ['SIBYL_NODE'] : []),
    ...(natsUrl === '' ? ['SIBYL_NATS_URL'] : []),
    ...(eventLog.url === '' ? ['SIBYL_LOG_URL'] : []),
    ...(database.url.startsWith('mysql:') ? [] : ['SIBYL_DATABASE_URL (mysql://…)']),
    // `SIBYL_MARKET_THREADS` needs a value. Its default depends on the number of cores, which may differ between the
    // machines of a cluster.
    ...(markets.threads === 0 ? ['SIBYL_MARKET_THREADS'] : []),
  ]
  if (missing.length > 0) {
    throw new SettingsError(`${missing.join(', ')}: must be set if ${named}`)
  }
  if (settings.profile === 'production' && cluster.key === '') {
    throw new SettingsError(
      `SIBYL_CLUSTER_KEY: must be set in production if ${named}; set the same key on all nodes: 0x followed by the output of openssl rand -hex 32`,
    )
  }
  const hasChain = chainRpc.length > 0 || chains.some(({ rpcUrls }) => rpcUrls.length > 0)
  if (devnet.enabled && !hasChain) {
    throw new SettingsError(
      `SIBYL_CHAIN_RPC: must be set if ${named}, because otherwise each node would start its own local chain; ` +
        'or set SIBYL_DEVNET=false',
    )
  }
}

/** True if only this machine can reach the address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

/**
 * Replaces each file name in the text by the key in that file. If a value is neither a key nor a readable file, the
 * error message omits the value, because the value could be part of a key.
 */
function withKeyFiles(text: string, leaf: Leaf): string {
  if (!isKeySetting(leaf)) return text
  const keys = text.split(',').map((part) => {
    const named = part.trim()
    if (named === '' || named.startsWith('0x')) return named
    try {
      requirePrivate(named, leaf)
      return readFileSync(named, 'utf8').trim()
    } catch (error) {
      if (error instanceof SettingsError) throw error
      throw new SettingsError(`${leaf.env}: must be a key (0x…) or the path of a readable file`)
    }
  })
  return keys.join(',')
}

/** Refuses a key file that every user of the machine can read, or that its group can change. */
function requirePrivate(path: string, leaf: Leaf): void {
  const mode = statSync(path).mode & 0o777
  if ((mode & 0o027) === 0) return
  throw new SettingsError(
    `${leaf.env}: the file ${path} has mode ${mode.toString(8)}, so other users can read or ` +
      'change it: run chmod 600 on the file, or chmod 640 if a group has to read it',
  )
}

/** True for private keys and shared secrets, which may be given as files. */
export function isKeySetting(leaf: Leaf): boolean {
  const { pattern, items } = leaf as { pattern?: string; items?: { pattern?: string } }
  return [Key, ClusterKey].includes(items?.pattern ?? pattern ?? '')
}

function parseText(text: string, leaf: Leaf): unknown {
  if (leaf.type === 'integer') return /^-?\d{1,15}$/.test(text) ? Number(text) : text
  if (leaf.type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  const items = (leaf as { items?: { type?: string; enum?: unknown } }).items
  if (leaf.type === 'array' && (items?.type === 'string' || items?.enum !== undefined)) {
    return text === '' ? [] : text.split(',').map((item) => item.trim())
  }
  if (leaf.type === 'array' || leaf.type === 'object') {
    try {
      return JSON.parse(text)
    } catch {
      return text
    }
  }
  return text
}

function problemOf(leaf: Leaf, value: unknown): string | undefined {
  const [first] = Errors(leaf, value)
  if (first === undefined) return undefined
  const { minimum, maximum } = leaf as { minimum?: number; maximum?: number }
  const choices = (leaf as { enum?: unknown[] }).enum
  const unit = leaf.unit === undefined ? '' : ` ${leaf.unit}`
  if (leaf.type === 'integer') return `must be an integer from ${minimum} to ${maximum}${unit}`
  if (leaf.type === 'boolean') return 'must be true or false'
  if (choices !== undefined) return `must be one of ${choices.join(', ')}`
  if (typeof value === 'string' && leaf.type === 'array') return 'must be a list in JSON'
  if (typeof value === 'string' && leaf.type === 'object') return 'must be an object in JSON'
  return `${wordsOf(first)}${placeOf(first.instancePath)}`
}

/** Describes a schema error in words instead of a regular expression. */
function wordsOf({ keyword, params, message }: ReturnType<typeof Errors>[number]): string {
  const { pattern } = params as { pattern?: unknown }
  return (keyword === 'pattern' && PATTERN_WORDS[String(pattern)]) || message
}

/** Returns the place of an error in a list or in JSON: `/0/contracts/oracle` becomes ` at [0].contracts.oracle`. */
function placeOf(path: string): string {
  const parts = path.split('/').slice(1)
  if (parts.length === 0) return ''
  return ` at ${parts.map((part) => (/^\d+$/.test(part) ? `[${part}]` : `.${part}`)).join('')}`
}

function merge(into: Record<string, unknown>, from: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(from)) {
    const present = into[key]
    if (isPlain(present) && isPlain(value)) merge(present, value)
    else into[key] = structuredClone(value)
  }
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns the value at a path such as `front.port`; undefined if there is none. */
export function valueAt(settings: object, path: string): unknown {
  let value: unknown = settings
  for (const part of path.split('.')) value = isPlain(value) ? value[part] : undefined
  return value
}

function put(settings: Record<string, unknown>, path: string, value: unknown): void {
  const parts = path.split('.')
  const last = parts.pop() ?? ''
  let target = settings
  for (const part of parts) target = target[part] as Record<string, unknown>
  target[last] = value
}
