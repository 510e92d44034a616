/** Settings of the exchange itself: its data, its markets, its threads, its log. */

import Type from 'typebox'
import { DatabaseUrl, MysqlUrl } from './patterns.ts'

export const service = Type.Object({
  name: Type.String({
    env: 'SIBYL_SERVICE_NAME',
    minLength: 1,
    maxLength: 40,
    description: 'The name in messages that wallets sign.',
  }),
})

export const data = Type.Object({
  dir: Type.String({
    env: 'SIBYL_DATA_DIR',
    minLength: 1,
    description: 'The folder of the event log and of the SQLite database.',
  }),
  freeMiBMin: Type.Integer({
    env: 'SIBYL_DATA_FREE_MIB_MIN',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'MiB',
    description:
      'With less free space than this on the disk of the log, only cancels are accepted; new ' +
      'orders get 503 until there is more. Each market thread keeps a reserve file of 4 MiB.',
  }),
})

export const clock = Type.Object({
  jumpSeconds: Type.Integer({
    env: 'SIBYL_CLOCK_JUMP_SECONDS',
    minimum: 0,
    maximum: 86_400,
    unit: 's',
    description:
      'Maximum jump of the machine’s clock; after a larger one nothing expires by it until it is confirmed. 0 always accepts the clock.',
  }),
  confirmSeconds: Type.Integer({
    env: 'SIBYL_CLOCK_CONFIRM_SECONDS',
    minimum: 1,
    maximum: 86_400,
    unit: 's',
    description: 'How long a clock that has jumped must advance evenly before it is accepted.',
  }),
})

export const database = Type.Object({
  url: Type.String({
    env: 'SIBYL_DATABASE_URL',
    secret: true,
    pattern: DatabaseUrl,
    description:
      'mysql://user:password@host:port/name, ?tls=true encrypts; empty is SQLite in the data folder.',
  }),
  writers: Type.Integer({
    env: 'SIBYL_DATABASE_WRITERS',
    minimum: 1,
    maximum: 64,
    unit: 'connections',
    description:
      'Partitions of the log that are written to a MySQL or MariaDB server at the same time, each ' +
      'over its own connection. SQLite has one writer.',
  }),
  queryThreads: Type.Integer({
    env: 'SIBYL_QUERY_THREADS',
    minimum: 1,
    maximum: 64,
    unit: 'threads',
    description: 'Threads for reads of the database, per front thread.',
  }),
  longReadsMax: Type.Integer({
    env: 'SIBYL_LONG_READS_MAX',
    minimum: 0,
    maximum: 10_000,
    unit: 'reads',
    description:
      'Pages deep in history that may wait in one front thread; one more gets 503. They never ' +
      'take the last of the threads that short reads need, if there are two.',
  }),
})

export const markets = Type.Object({
  threads: Type.Integer({
    env: 'SIBYL_MARKET_THREADS',
    minimum: 0,
    maximum: 64,
    unit: 'threads',
    description:
      'Threads that share the partitions of the log. May change between starts. 0 follows the ' +
      'cores: a quarter of them.',
  }),
  partitions: Type.Integer({
    env: 'SIBYL_LOG_PARTITIONS',
    minimum: 1,
    maximum: 256,
    unit: 'partitions',
    description: 'Parts of the event log. Fixed when the data folder is created.',
  }),
  pins: Type.Record(Type.String(), Type.Integer({ minimum: 0 }), {
    env: 'SIBYL_MARKET_PINS',
    description: 'Markets with a partition of choice, as JSON: {"0x…": 3}.',
  }),
  mailboxMax: Type.Integer({
    env: 'SIBYL_MARKET_MAILBOX_MAX',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'commands',
    description: 'Commands that wait at one market thread; one more is answered OVERLOADED.',
  }),
  snapshotEvery: Type.Integer({
    env: 'SIBYL_SNAPSHOT_EVERY',
    minimum: 100,
    maximum: 100_000_000,
    unit: 'events',
    description: 'Events of a market after which it is snapshotted again.',
  }),
  warmUpOrders: Type.Integer({
    env: 'SIBYL_WARM_UP_ORDERS',
    minimum: 0,
    maximum: 100_000,
    unit: 'orders',
    description:
      'Synthetic orders that a market thread and a front each place in a scratch market before they serve, so that ' +
      'the code of the first orders is compiled. 2,000 take a front about 1 s; 0 turns it off.',
  }),
})

export const matching = Type.Object({
  selfTrade: Type.Enum(['allow', 'cancel-resting'], {
    env: 'SIBYL_SELF_TRADE',
    description: 'What happens if an order would match one of the same trader.',
  }),
})

export const orders = Type.Object({
  expirationDaysMax: Type.Integer({
    env: 'SIBYL_ORDER_EXPIRATION_DAYS_MAX',
    minimum: 1,
    maximum: 36_500,
    unit: 'days',
    description:
      'Maximum time to the expiration of an order; a closed order is remembered for this long. ' +
      'Accepted orders do not change.',
  }),
  cancelledPerHourMax: Type.Integer({
    env: 'SIBYL_ORDER_CANCELLED_PER_HOUR_MAX',
    minimum: 0,
    maximum: 100_000_000,
    unit: 'orders',
    description:
      'Orders that a trader may place and cancel without a fill in an hour, per market thread, while ' +
      'limits are on; then new ones get 429, and cancels are still accepted. 0 means no limit.',
  }),
})

export const verify = Type.Object({
  threads: Type.Integer({
    env: 'SIBYL_VERIFY_THREADS',
    minimum: 0,
    maximum: 64,
    unit: 'threads',
    description:
      'Threads that recover the signers of orders, per front thread. 0 follows the cores: two, or ' +
      'one on a single core.',
  }),
})

export const demoMarkets = Type.Boolean({
  env: 'SIBYL_DEMO_MARKETS',
  description: 'Opens three demo markets if there are none.',
})

export const demoMarketsMore = Type.Integer({
  env: 'SIBYL_DEMO_MARKETS_MORE',
  minimum: 0,
  maximum: 10_000,
  unit: 'markets',
  description: 'Number of further demo markets, for load tests of an exchange without a chain.',
})

export const supervisor = Type.Object({
  shareBelowCores: Type.Integer({
    env: 'SIBYL_SHARE_BELOW_CORES',
    minimum: 0,
    maximum: 1_024,
    unit: 'cores',
    description:
      'With fewer cores than this, the threads that wait most of the time (indexer, relayer, ' +
      'resolution, settlement, prices) share one worker.',
  }),
  startTimeoutMs: Type.Integer({
    env: 'SIBYL_START_TIMEOUT_MS',
    minimum: 1_000,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'How long a thread may take to be ready; replaying a long log takes a while.',
  }),
  stopTimeoutMs: Type.Integer({
    env: 'SIBYL_STOP_TIMEOUT_MS',
    minimum: 100,
    maximum: 600_000,
    unit: 'ms',
    description: 'How long a thread may take to finish its work when the exchange stops.',
  }),
  healthIntervalMs: Type.Integer({
    env: 'SIBYL_HEALTH_INTERVAL_MS',
    minimum: 50,
    maximum: 600_000,
    unit: 'ms',
    description: 'Interval of health checks of each thread.',
  }),
  restartBackoffMs: Type.Integer({
    env: 'SIBYL_RESTART_BACKOFF_MS',
    minimum: 1,
    maximum: 60_000,
    unit: 'ms',
    description: 'The pause before a dead thread is started again; it doubles each time.',
  }),
  restartBackoffMsMax: Type.Integer({
    env: 'SIBYL_RESTART_BACKOFF_MS_MAX',
    minimum: 1,
    maximum: 600_000,
    unit: 'ms',
    description: 'The longest such pause.',
  }),
  optionalBackoffMsMax: Type.Integer({
    env: 'SIBYL_OPTIONAL_BACKOFF_MS_MAX',
    minimum: 1,
    maximum: 3_600_000,
    unit: 'ms',
    description:
      'The longest pause of the threads that trading does not need: indexer, relayer, ' +
      'resolution, settlement, prices. They are restarted as long as the exchange runs.',
  }),
  restartsMax: Type.Integer({
    env: 'SIBYL_RESTARTS_MAX',
    minimum: 0,
    maximum: 1_000,
    unit: 'restarts',
    description: 'Maximum restarts of any other thread within the window; then the exchange stops.',
  }),
  restartWindowMs: Type.Integer({
    env: 'SIBYL_RESTART_WINDOW_MS',
    minimum: 1_000,
    maximum: 86_400_000,
    unit: 'ms',
    description: 'The window in which restarts are counted.',
  }),
})

export const logging = Type.Object({
  level: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    env: 'SIBYL_LOG_LEVEL',
    description: 'The lowest level of messages to write.',
  }),
  format: Type.Enum(['auto', 'json', 'pretty'], {
    env: 'SIBYL_LOG_FORMAT',
    description: 'json, pretty, or auto: pretty on a terminal, json elsewhere.',
  }),
  requestsEvery: Type.Integer({
    env: 'SIBYL_LOG_REQUESTS_EVERY',
    minimum: 0,
    maximum: 1_000_000,
    unit: 'requests',
    description:
      'Logs every nth HTTP request at info, with its route, status and latency: 1 logs all, 0 none.',
  }),
})

export const traces = Type.Object({
  url: Type.String({
    env: 'SIBYL_TRACES_URL',
    secret: true,
    pattern: '^(https?://.+)?$',
    description:
      'The address of an OpenTelemetry collector that takes OTLP over HTTP in JSON, for example ' +
      'http://127.0.0.1:4318/v1/traces. Empty turns traces off.',
  }),
  every: Type.Integer({
    env: 'SIBYL_TRACES_EVERY',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'orders',
    description:
      'Traces every nth order and cancel over HTTP of each front; 1 traces all. A request whose ' +
      'traceparent has the sampled flag is traced too, up to 10 in a second.',
  }),
})

export const eventLog = Type.Object({
  url: Type.String({
    env: 'SIBYL_LOG_URL',
    secret: true,
    pattern: MysqlUrl,
    description:
      'Where the event log lies: mysql://user:password@host:port/name, with several servers as ' +
      'host:port,host:port; ?tls=true encrypts. Empty is the data folder.',
  }),
  retentionHours: Type.Integer({
    env: 'SIBYL_LOG_RETENTION',
    minimum: 0,
    maximum: 87_600,
    unit: 'hours',
    description:
      'Time for which the event log keeps events that the database already has. A copy of the ' +
      'database that is not older catches up at a start. 0 keeps only the events that markets ' +
      'need. Older events are archived.',
  }),
  archive: Type.Boolean({
    env: 'SIBYL_LOG_ARCHIVE',
    description:
      'Keeps events that leave the event log, compressed, so that `npm run rebuild` can rebuild ' +
      'the database. Without it, a lost database can be restored only from a copy within the ' +
      'retention.',
  }),
  archiveDir: Type.String({
    env: 'SIBYL_LOG_ARCHIVE_DIR',
    description: 'The folder of the archive; empty is `archive` in the data folder.',
  }),
  archiveMiBMax: Type.Integer({
    env: 'SIBYL_LOG_ARCHIVE_MIB_MAX',
    minimum: 0,
    maximum: 1_000_000_000,
    unit: 'MiB',
    description:
      'The oldest segments of the archive are deleted when it is larger than this; 0 keeps ' +
      'everything. With a limit, a rebuild needs a copy of the database that reaches the start ' +
      'of the archive.',
  }),
})
