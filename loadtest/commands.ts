/**
 * `npm run bench`, `crash`, `fuzz`, `soak` and `load`: without a name, each lists its programs, one per line. `npm run
 * bench -- book --quick` runs one, with the arguments that follow its name. If options follow without a name, they are
 * for the first program of the list.
 */

import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PROFILES } from './profiles/all.ts'

export type Command = {
  /** Path from the root of the repository. */
  readonly file: string
  /** Description of what the program shows, in one line. */
  readonly about: string
  /** Arguments that come before those of the command line. */
  readonly args?: readonly string[]
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))

const LOAD_FILE = 'loadtest/run.ts'

const bench = (name: string, about: string): Record<string, Command> => ({
  [name]: { file: `loadtest/${name}-bench.ts`, about },
})

/**
 * Benchmarks. Each compares our code with a peer or a limit in the same run, and fails if the ratio is below its
 * minimum.
 */
export const BENCHES: Readonly<Record<string, Command>> = {
  ...bench(
    'auth',
    'signed orders with a bearer token each, beside the same without tokens [--kept | --batch]',
  ),
  ...bench('book', 'the order book beside the fastest one on npm'),
  ...bench('channel', 'requests between threads beside bare messages'),
  ...bench('cluster', 'CPU per order and message with 1, 2, 3 nodes; orders over NATS'),
  ...bench(
    'connections',
    '100,000 sockets on one front; 20,000 clients that come back at once beside bare upgrades',
  ),
  ...bench('funds', 'signed orders with their funds reserved beside the same without'),
  ...bench('close-market', 'a market of 200,000 orders closes: nothing waits longer than 50 ms'),
  ...bench('front', 'a small GET through the whole front beside a bare handler'),
  ...bench('log', 'durable records in batches beside bare commits of one row'),
  ...bench('many-markets', '100,000 markets: their memory, and a start within 30 seconds'),
  ...bench('market', 'commands through a market thread with the durable log [--public]'),
  ...bench('orderbook', 'GET of a book of a running exchange beside the same bytes, bare'),
  ...bench('orders', 'signed orders end to end over HTTP beside bare signature recovery [--cores]'),
  ...bench('reads', 'every read with 1,000,000 trades beside 10,000'),
  ...bench('recovery', 'replay, recovery, and the pause of a snapshot'),
  ...bench('relayer', 'operations by signature until they are in a block'),
  ...bench('signers', 'orders of delegates and contract accounts beside those of traders'),
  ...bench('settlement', 'trades settled in batches of 50 beside batches of 1'),
  ...bench('sse', 'prices to 2,000 readers of their stream beside a bare loop'),
  ...bench('store', 'projected rows on both databases beside the insertMany of the ORM'),
  ...bench('stream', 'a book to 10,000 sockets beside a bare publish; stalled readers'),
  ...bench('trader-lists', 'orders beside lists of open orders, with 10,003 markets'),
  ...bench('transparency', 'signed orders with a public log beside the same without'),
  ...bench('verify', 'hash and recovery with everything around it beside bare recovery'),
}

const COMMANDS: Readonly<Record<string, Readonly<Record<string, Command>>>> = {
  bench: {
    all: {
      file: 'loadtest/bench-all.ts',
      about: 'all but audit, page and gas, one after the other; writes RESULTS.md',
    },
    ...BENCHES,
    audit: {
      file: 'loadtest/audit-large.ts',
      about: 'the audit of 1,000,000 trades, which must find no difference',
    },
    'auth-flood': {
      file: 'loadtest/auth-flood.ts',
      about: 'valid orders while 220 sockets of another address send tokens of unknown keys',
    },
    'dear-reads': {
      file: 'loadtest/dear-reads.ts',
      about: 'placing while another address asks for /metrics, or for pages deep in history',
    },
    'dying-part': {
      file: 'loadtest/dying-part.ts',
      about: 'orders while the thread of prices dies again and again: none may fail',
    },
    ...bench('mysql-log', 'the log in a database server beside the one in files [--nodes 1|3]'),
    'own-write': {
      file: 'loadtest/own-write.ts',
      about: 'two fronts: reads of the book right after placing, each of which must show the order',
    },
    page: {
      file: 'loadtest/page-bench.ts',
      about: 'the market view in Chromium under 100 changes a second: frames, heap, bytes',
    },
    gas: {
      file: 'test/contracts/support/gas-run.ts',
      about: 'the gas of every operation, as tables for contracts/README.md',
    },
  },
  crash: {
    exchange: {
      file: 'test/crash/run.ts',
      about: 'kills under a flow of orders: what was answered is neither lost nor doubled',
    },
    resolution: {
      file: 'test/crash/run.ts',
      args: ['--resolution'],
      about: "kills after every step of a market's life to its resolution",
    },
    settlement: {
      file: 'test/crash/settlement-crash-run.ts',
      about: 'kills at chosen instants of settling, then audits the chain',
    },
    relayer: {
      file: 'test/crash/relayer-crash-run.ts',
      about: 'kills around the calls of the relayer to its chain',
    },
    http: {
      file: 'test/crash/http-crash-run.ts',
      about: 'kills under orders over HTTP: every accepted one is in the database',
    },
    transparency: {
      file: 'test/crash/transparency-crash-run.ts',
      about:
        'kills and takeovers under a witness: no checkpoint contradicts another [--takeovers --log --database]',
    },
    cluster: {
      file: 'test/crash/cluster-crash-run.ts',
      about: 'nodes, servers and links of a cluster die under orders [--kills --galera --events]',
    },
    rolling: {
      file: 'test/crash/cluster-crash-run.ts',
      args: ['--rolling'],
      about: 'every node of a cluster is stopped and started under orders, one by one [--galera]',
    },
    log: {
      file: 'test/crash/log-crash-run.ts',
      about: 'owners that race for a log in database servers that are killed [--kills --nodes 1|3]',
    },
    conformance: {
      file: 'test/crash/log-conformance-run.ts',
      about: 'the tests of the log in a database, on a Galera cluster of three',
    },
    start: {
      file: 'test/crash/start-stop-run.ts',
      about: 'stops at random instants of the start: nothing is left behind',
    },
  },
  fuzz: {
    front: {
      file: 'test/fuzz/fuzz-front.ts',
      about: 'malformed requests, headers, bodies and tokens at a real exchange',
    },
    contracts: {
      file: 'test/contracts/support/fuzz-run.ts',
      about: 'random calls of the settlement contract beside a model [calls [seed]]',
    },
    chain: {
      file: 'test/fuzz/fuzz-chain.ts',
      about: 'hostile logs among honest ones through the indexer, on both databases [logs [seed]]',
    },
  },
  soak: {
    stream: {
      file: 'loadtest/stream-soak.ts',
      about: 'clients that reconnect all the time: no gap goes unnoticed, memory stays flat',
    },
    mixed: {
      file: 'loadtest/mixed-soak.ts',
      about:
        'trading, reading and following at once for long [--minutes --rate --funds off|reserve]',
    },
    hostile: {
      file: 'loadtest/hostile-soak.ts',
      about:
        'an honest client while one address, then ten, attack in every way [--minutes --attack]',
    },
    'stream-attack': {
      file: 'loadtest/hostile-soak.ts',
      args: ['--attack', 'tickerTopics,conflatedSnapshots'],
      about: 'the same with the attacks on the stream alone',
    },
    'stalled-front': {
      file: 'loadtest/stalled-front.ts',
      about: 'events for a front that takes none: what the process grows by [seconds]',
    },
    ghosts: {
      file: 'loadtest/ghost-attack.ts',
      about: 'empty wallets that buy all that is offered [--funds off|reserve --wallets --minutes]',
    },
    honest: {
      file: 'loadtest/honest-soak.ts',
      about:
        'funded traders, funds reserved: every trade settles, nothing stays reserved [--minutes]',
    },
    year: {
      file: 'loadtest/year-soak.ts',
      about: 'a year of quick markets in simulated time: memory and start stay flat [markets]',
    },
    'quick-days': {
      file: 'test/services/prices/quick-markets/quick-day-run.ts',
      about: 'days of quick markets on a simulated clock [days [seed [hours]]]',
    },
  },
  load: {
    ...Object.fromEntries(
      Object.entries(PROFILES).map(([name, { about }]) => [
        name,
        { file: LOAD_FILE, args: ['--profile', name], about },
      ]),
    ),
    compare: { file: 'loadtest/compare.ts', about: 'two reports side by side: a.json b.json' },
    markets: {
      file: 'loadtest/make-markets.ts',
      about: 'opens markets on the local chain of a running exchange',
    },
  },
}

const isHelp = (text: string): boolean => text === '--help' || text === '-h'

/** Returns the lines that are printed if no known program is named. */
function listOf(script: string): string {
  const commands = Object.entries(COMMANDS[script] ?? {})
  const width = Math.max(...commands.map(([name]) => name.length))
  const lines = commands.map(([name, { about }]) => `  ${name.padEnd(width)}  ${about}`)
  return [`npm run ${script} -- <name> [arguments]`, ...lines].join('\n')
}

/** Returns the file of every program that these commands can run. */
export function commandFiles(): string[] {
  return Object.values(COMMANDS).flatMap((each) => Object.values(each).map(({ file }) => file))
}

async function run(script: string, args: readonly string[]): Promise<void> {
  const commands = COMMANDS[script] ?? {}
  const [asked] = args
  if (asked === undefined || isHelp(asked)) {
    process.stdout.write(`${listOf(script)}\n`)
    return
  }
  const isNamed = !asked.startsWith('--')
  const name = isNamed ? asked : (Object.keys(commands)[0] ?? '')
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (command === undefined) {
    process.stderr.write(`there is no "${name}" to run\n${listOf(script)}\n`)
    process.exitCode = 2
    return
  }
  // If help is requested, the load tester prints its own options. For every other program, its entry in the list is
  // printed.
  if (args.some(isHelp) && command.file !== LOAD_FILE) {
    process.stdout.write(`npm run ${script} -- ${name} [arguments]\n  ${command.about}\n`)
    return
  }
  const file = join(ROOT, command.file)
  process.argv = [process.execPath, file, ...(command.args ?? []), ...args.slice(isNamed ? 1 : 0)]
  await import(file)
}

if (process.argv[1] === import.meta.filename) {
  const [script = '', ...args] = process.argv.slice(2)
  // The promise is not awaited, because `bench -- all` imports this module. With a top-level await, the two modules
  // would wait for each other.
  void run(script, args)
}
