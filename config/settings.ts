/**
 * Every setting of Sibyl: its name in the environment, its unit, its bounds and what it does. This
 * is the only file that reads the environment. Values come from three places, the later one wins:
 * `default.ts`, the profile (`devnet.ts` or `production.ts`, chosen by SIBYL_PROFILE), the
 * environment. A wrong or unknown setting stops the start with one line that names it; the value of
 * a secret is never shown.
 */

import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { availableParallelism } from 'node:os'
import Type, { type Static, type TSchema } from 'typebox'
import { Errors } from 'typebox/value'
import { BATCH_ORDERS_MAX } from '#domain/limits.ts'
import { defaults } from './default.ts'
import { devnet } from './devnet.ts'
import { production } from './production.ts'
import { threadsFor } from './topology.ts'

const ContractAddress = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' })

const Chain = Type.Object(
  {
    chainId: Type.Integer({ minimum: 1 }),
    /** On `main` a proposal needs the bond of its proposer; on `test` the relayer may post it. */
    role: Type.Enum(['main', 'test']),
    /** Tried in this order. With none there is no chain: orders match and nothing settles. */
    rpcUrls: Type.Array(Type.String({ pattern: '^https?://' }), { maxItems: 10 }),
    blockExplorer: Type.String(),
    /** The block of the deployment: nothing of ours happened before it. */
    startBlock: Type.Integer({ minimum: 0 }),
    /** Blocks on top of a block before what it holds is believed. */
    confirmations: Type.Integer({ minimum: 0, maximum: 1_000 }),
    contracts: Type.Object(
      {
        settlement: ContractAddress,
        conditionalTokens: ContractAddress,
        stablecoin: ContractAddress,
        marketFactory: ContractAddress,
        multicall: ContractAddress,
        oracle: ContractAddress,
      },
      { additionalProperties: false },
    ),
    stablecoin: Type.Object(
      {
        symbol: Type.String(),
        decimals: Type.Integer({ minimum: 6, maximum: 6 }),
        /** What permits are signed for: the token's own EIP-712 domain; `USD Coin` and `1` if not said. */
        domainName: Type.Optional(Type.String()),
        domainVersion: Type.Optional(Type.String()),
      },
      { additionalProperties: false },
    ),
  },
  { additionalProperties: false },
)

/** A private key, 0x and 64 hexadecimal digits; in the environment also the path of its file. */
const Key = '^(0x[0-9a-fA-F]{64})?$'

export const SettingsSchema = Type.Object({
  profile: Type.String({
    env: 'SIBYL_PROFILE',
    description: 'Which set of values to start from: default, devnet or production.',
  }),
  service: Type.Object({
    name: Type.String({
      env: 'SIBYL_SERVICE_NAME',
      minLength: 1,
      maxLength: 40,
      description: 'The name in messages that wallets sign.',
    }),
  }),
  front: Type.Object({
    host: Type.String({
      env: 'SIBYL_HOST',
      minLength: 1,
      description: 'The address to listen on. 0.0.0.0 or :: is everybody.',
    }),
    port: Type.Integer({
      env: 'SIBYL_PORT',
      minimum: 0,
      maximum: 65_535,
      description: 'The port of HTTP and WebSocket. 0 takes a free one.',
    }),
    threads: Type.Integer({
      env: 'SIBYL_FRONT_THREADS',
      minimum: 0,
      maximum: 64,
      unit: 'threads',
      description: 'Threads that share the port. 0 follows the cores: a quarter of them.',
    }),
    corsOrigins: Type.Array(Type.String(), {
      env: 'SIBYL_CORS_ORIGINS',
      maxItems: 100,
      description: 'Origins that browsers may call from, separated by commas; * is any.',
    }),
    readCacheMs: Type.Integer({
      env: 'SIBYL_READ_CACHE_MS',
      minimum: 0,
      maximum: 60_000,
      unit: 'ms',
      description: 'How long sums that everybody is shown are kept before they are read again.',
    }),
    deadlineMs: Type.Integer({
      env: 'SIBYL_REQUEST_DEADLINE_MS',
      minimum: 100,
      maximum: 120_000,
      unit: 'ms',
      description: 'A request that has no answer by then gets 503.',
    }),
    requestsInFlightMax: Type.Integer({
      env: 'SIBYL_REQUESTS_IN_FLIGHT_MAX',
      minimum: 1,
      maximum: 1_000_000,
      unit: 'requests',
      description: 'Requests under way in one front thread; one more gets 503.',
    }),
    connectionsMax: Type.Integer({
      env: 'SIBYL_CONNECTIONS_MAX',
      minimum: 1,
      maximum: 10_000_000,
      unit: 'connections',
      description: 'Connections to one front thread; one more gets 503 and is closed.',
    }),
    connectionsPerIpMax: Type.Integer({
      env: 'SIBYL_CONNECTIONS_PER_IP_MAX',
      minimum: 1,
      maximum: 10_000_000,
      unit: 'connections',
      description:
        'Connections of one IPv4 address or IPv6 /64 to all threads, while limits are on and the ' +
        'system is Linux; found out within seconds. Then new ones get 429 and are closed.',
    }),
    trustedProxies: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]+(/[0-9]{1,3})?$' }), {
      env: 'SIBYL_TRUSTED_PROXIES',
      maxItems: 100,
      description: 'Addresses or ranges of proxies whose X-Forwarded-For is believed.',
    }),
  }),
  auth: Type.Object({
    bearer: Type.Boolean({
      env: 'SIBYL_AUTH_BEARER',
      description: 'Whether writes need a bearer token of a registered API key.',
    }),
    allowOpenWrites: Type.Boolean({
      env: 'SIBYL_ALLOW_OPEN_WRITES',
      description: 'Permits a start without bearer tokens on an address that others can reach.',
    }),
    singleUseNonce: Type.Boolean({
      env: 'SIBYL_SINGLE_USE_NONCE',
      description: 'Whether a token can be used once only.',
    }),
    noncesMax: Type.Integer({
      env: 'SIBYL_NONCES_MAX',
      minimum: 1_000,
      maximum: 100_000_000,
      unit: 'tokens',
      description: 'Used tokens of the last five minutes that are remembered, 48 bytes each.',
    }),
  }),
  limits: Type.Object({
    enabled: Type.Boolean({
      env: 'SIBYL_LIMITS',
      description: 'Whether requests are limited by rate.',
    }),
    bucketsMax: Type.Integer({
      env: 'SIBYL_LIMIT_BUCKETS_MAX',
      minimum: 1_000,
      maximum: 100_000_000,
      unit: 'buckets',
      description: 'IP ranges and keys that can be drawing at once, 48 bytes each.',
    }),
    ipPerSecond: Type.Integer({
      env: 'SIBYL_LIMIT_IP_PER_SECOND',
      minimum: 1,
      maximum: 10_000_000,
      unit: 'units/s',
      description: 'What an IPv4 address or an IPv6 /64 may spend per second.',
    }),
    ipBurst: Type.Integer({
      env: 'SIBYL_LIMIT_IP_BURST',
      minimum: 1,
      maximum: 100_000_000,
      unit: 'units',
      description: 'What it may spend at once.',
    }),
    keyPerSecond: Type.Integer({
      env: 'SIBYL_LIMIT_KEY_PER_SECOND',
      minimum: 1,
      maximum: 10_000_000,
      unit: 'units/s',
      description: 'What an API key may spend per second.',
    }),
    keyBurst: Type.Integer({
      env: 'SIBYL_LIMIT_KEY_BURST',
      minimum: 1,
      maximum: 100_000_000,
      unit: 'units',
      description: 'What it may spend at once.',
    }),
    readCost: Type.Integer({
      env: 'SIBYL_COST_READ',
      minimum: 0,
      maximum: 1_000_000,
      unit: 'units',
      description: 'The price of a read.',
    }),
    writeCost: Type.Integer({
      env: 'SIBYL_COST_WRITE',
      minimum: 0,
      maximum: 1_000_000,
      unit: 'units',
      description: 'The price of a write, of a check, and of each order of a batch.',
    }),
    registrationCost: Type.Integer({
      env: 'SIBYL_COST_REGISTRATION',
      minimum: 0,
      maximum: 1_000_000,
      unit: 'units',
      description: 'The price of registering or revoking a key.',
    }),
    connectionCost: Type.Integer({
      env: 'SIBYL_COST_CONNECTION',
      minimum: 0,
      maximum: 1_000_000,
      unit: 'units',
      description: 'The price of opening a connection.',
    }),
  }),
  data: Type.Object({
    dir: Type.String({
      env: 'SIBYL_DATA_DIR',
      minLength: 1,
      description: 'The folder of the event log and of the SQLite database.',
    }),
  }),
  database: Type.Object({
    url: Type.String({
      env: 'SIBYL_DATABASE_URL',
      secret: true,
      pattern: '^$|^mysql://|^sqlite:',
      description: 'mysql://user:password@host:port/name; empty is SQLite in the data folder.',
    }),
    queryThreads: Type.Integer({
      env: 'SIBYL_QUERY_THREADS',
      minimum: 1,
      maximum: 64,
      unit: 'threads',
      description: 'Threads for reads of the database, per front thread.',
    }),
  }),
  markets: Type.Object({
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
  }),
  matching: Type.Object({
    selfTrade: Type.Enum(['allow', 'cancel-resting'], {
      env: 'SIBYL_SELF_TRADE',
      description: 'What happens when an order meets one of the same trader.',
    }),
  }),
  verify: Type.Object({
    threads: Type.Integer({
      env: 'SIBYL_VERIFY_THREADS',
      minimum: 0,
      maximum: 64,
      unit: 'threads',
      description:
        'Threads that recover the signers of orders, per front thread. 0 follows the cores: two, or ' +
        'one on a single core.',
    }),
  }),
  chains: Type.Array(Chain, {
    env: 'SIBYL_CHAINS',
    maxItems: 16,
    description: 'The chains that orders may settle on, as JSON.',
  }),
  chainRpc: Type.Array(Type.String({ pattern: '^https?://' }), {
    env: 'SIBYL_CHAIN_RPC',
    maxItems: 10,
    description:
      'Where the chain is reached, tried in this order, separated by commas; its contracts are ' +
      'those of SIBYL_CHAINS, which has one chain then. Empty on the devnet: a local chain starts.',
  }),
  indexer: Type.Object({
    pollMs: Type.Integer({
      env: 'SIBYL_INDEXER_POLL_MS',
      minimum: 10,
      maximum: 60_000,
      unit: 'ms',
      description: 'How often each chain is asked for new blocks.',
    }),
    rangeBlocksMax: Type.Integer({
      env: 'SIBYL_INDEXER_RANGE_BLOCKS_MAX',
      minimum: 1,
      maximum: 100_000,
      unit: 'blocks',
      description: 'Blocks that are read at once; fewer where the provider refuses so many.',
    }),
    rpcTimeoutMs: Type.Integer({
      env: 'SIBYL_INDEXER_RPC_TIMEOUT_MS',
      minimum: 50,
      maximum: 600_000,
      unit: 'ms',
      description: 'How long one request of the indexer to a chain may take.',
    }),
  }),
  devnet: Type.Object({
    enabled: Type.Boolean({
      env: 'SIBYL_DEVNET',
      description: 'Whether a local chain is started when no other one is named.',
    }),
    port: Type.Integer({
      env: 'SIBYL_DEVNET_PORT',
      minimum: 0,
      maximum: 65_535,
      description: 'The port of the local chain. 0 takes a free one.',
    }),
    lingerSeconds: Type.Integer({
      env: 'SIBYL_DEVNET_LINGER_SECONDS',
      minimum: 0,
      maximum: 86_400,
      unit: 's',
      description:
        'How long the local chain waits for the next start when the exchange was killed.',
    }),
    disputeSeconds: Type.Integer({
      env: 'SIBYL_DISPUTE_SECONDS',
      minimum: 1,
      maximum: 31_536_000,
      unit: 's',
      description: 'How long a proposed outcome can be disputed on the local chain.',
    }),
  }),
  keys: Type.Object({
    settlement: Type.String({
      env: 'SIBYL_SETTLEMENT_KEY',
      secret: true,
      pattern: Key,
      description: 'The private key that sends settlements.',
    }),
    relayer: Type.Array(Type.String({ pattern: Key }), {
      env: 'SIBYL_RELAYER_KEYS',
      secret: true,
      maxItems: 64,
      description: 'The private keys that pay for what users sign, separated by commas.',
    }),
    operator: Type.String({
      env: 'SIBYL_OPERATOR_KEY',
      secret: true,
      pattern: Key,
      description: 'The private key that opens and resolves quick markets.',
    }),
    resolution: Type.String({
      env: 'SIBYL_RESOLUTION_KEY',
      secret: true,
      pattern: Key,
      description: 'The private key that settles resolutions when their time has come.',
    }),
  }),
  resolution: Type.Object({
    autoSettle: Type.Boolean({
      env: 'SIBYL_AUTO_SETTLE',
      description:
        'Whether resolutions are settled by the exchange as soon as they can be; needs a key.',
    }),
    pollMs: Type.Integer({
      env: 'SIBYL_RESOLUTION_POLL_MS',
      minimum: 50,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'How often it is looked for resolutions to settle.',
    }),
  }),
  relayer: Type.Object({
    deadlineAheadSecMax: Type.Integer({
      env: 'SIBYL_RELAYER_DEADLINE_AHEAD_SEC_MAX',
      minimum: 60,
      maximum: 3_153_600_000,
      unit: 's',
      description: 'How far ahead the deadline of what a user signs may lie.',
    }),
    redemptionsMax: Type.Integer({
      env: 'SIBYL_RELAYER_REDEMPTIONS_MAX',
      minimum: 1,
      maximum: 100,
      unit: 'redemptions',
      description: 'Redemptions of one batch.',
    }),
    requireHoldings: Type.Boolean({
      env: 'SIBYL_RELAYER_REQUIRE_HOLDINGS',
      description: 'Whether approvals and permits are only for those who hold something here.',
    }),
    ownerPerMinute: Type.Integer({
      env: 'SIBYL_RELAYER_OWNER_PER_MINUTE',
      minimum: 1,
      maximum: 1_000_000,
      unit: 'operations/min',
      description: 'Operations that are relayed for one owner, while limits are on.',
    }),
    ownerBurst: Type.Integer({
      env: 'SIBYL_RELAYER_OWNER_BURST',
      minimum: 1,
      maximum: 1_000_000,
      unit: 'operations',
      description: 'How many of them at once.',
    }),
    ownerGasPerDay: Type.Integer({
      env: 'SIBYL_RELAYER_OWNER_GAS_PER_DAY',
      minimum: 0,
      maximum: 1_000_000_000_000,
      unit: 'gas',
      description: 'Gas that is spent for one owner in a day (UTC), per chain.',
    }),
    gasPerDay: Type.Integer({
      env: 'SIBYL_RELAYER_GAS_PER_DAY',
      minimum: 0,
      maximum: 1_000_000_000_000_000,
      unit: 'gas',
      description: 'Gas that is spent for all in a day (UTC), per chain.',
    }),
    balanceLowGwei: Type.Integer({
      env: 'SIBYL_RELAYER_BALANCE_LOW_GWEI',
      minimum: 0,
      maximum: 1_000_000_000_000_000,
      unit: 'gwei',
      description: 'A key with less is warned about.',
    }),
    balanceMinGwei: Type.Integer({
      env: 'SIBYL_RELAYER_BALANCE_MIN_GWEI',
      minimum: 0,
      maximum: 1_000_000_000_000_000,
      unit: 'gwei',
      description: 'A key with less sends no more; without any key left operations are refused.',
    }),
    stuckAfterMs: Type.Integer({
      env: 'SIBYL_RELAYER_STUCK_AFTER_MS',
      minimum: 100,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'A key whose transaction is in no block for so long gives way to the others.',
    }),
    rebroadcastMs: Type.Integer({
      env: 'SIBYL_RELAYER_REBROADCAST_MS',
      minimum: 10,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'How long a transaction is in no block before nodes are handed it again.',
    }),
    feeBumpMs: Type.Integer({
      env: 'SIBYL_RELAYER_FEE_BUMP_MS',
      minimum: 10,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'How long it is in no block before it is signed again with higher fees.',
    }),
    pollMs: Type.Integer({
      env: 'SIBYL_RELAYER_POLL_MS',
      minimum: 10,
      maximum: 60_000,
      unit: 'ms',
      description: 'How often the chain is asked about what was sent.',
    }),
    idlePollMs: Type.Integer({
      env: 'SIBYL_RELAYER_IDLE_POLL_MS',
      minimum: 10,
      maximum: 600_000,
      unit: 'ms',
      description: 'How often while nothing is under way, to notice reorganisations.',
    }),
    balanceEveryMs: Type.Integer({
      env: 'SIBYL_RELAYER_BALANCE_EVERY_MS',
      minimum: 10,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'How often the balances of the keys are read.',
    }),
  }),
  settlement: Type.Object({
    enabled: Type.Boolean({
      env: 'SIBYL_SETTLEMENT',
      description: 'Whether matched trades are brought on chain, where there is a chain.',
    }),
    batchMax: Type.Integer({
      env: 'SIBYL_SETTLEMENT_BATCH_MAX',
      minimum: 1,
      maximum: 500,
      unit: 'trades',
      description: 'Trades of one transaction. 45 fit into 2^24 gas whatever traders do.',
    }),
    batchWaitMs: Type.Integer({
      env: 'SIBYL_SETTLEMENT_BATCH_WAIT_MS',
      minimum: 0,
      maximum: 60_000,
      unit: 'ms',
      description: 'How long a trade waits for others to share its transaction.',
    }),
    inFlightMax: Type.Integer({
      env: 'SIBYL_SETTLEMENT_IN_FLIGHT_MAX',
      minimum: 1,
      maximum: 64,
      unit: 'transactions',
      description: 'Transactions that are sent and in no block yet.',
    }),
    pollMs: Type.Integer({
      env: 'SIBYL_SETTLEMENT_POLL_MS',
      minimum: 10,
      maximum: 60_000,
      unit: 'ms',
      description: 'How often the chain, and the database, are asked for news.',
    }),
    maxLagSeconds: Type.Integer({
      env: 'SIBYL_SETTLEMENT_MAX_LAG_SECONDS',
      minimum: 0,
      maximum: 604_800,
      unit: 's',
      description:
        'When the oldest trade of a chain has waited longer, its markets take cancels only; 0 is ' +
        "never. It must be below the settlement contract's grace.",
    }),
    gasMax: Type.Integer({
      env: 'SIBYL_SETTLEMENT_GAS_MAX',
      minimum: 500_000,
      maximum: 1_000_000_000,
      unit: 'gas',
      description: 'The most gas that one transaction may have.',
    }),
    bumpAfterMs: Type.Integer({
      env: 'SIBYL_SETTLEMENT_BUMP_AFTER_MS',
      minimum: 100,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'A transaction that is in no block after this time is sent with higher fees.',
    }),
    maxFeeGwei: Type.Integer({
      env: 'SIBYL_SETTLEMENT_MAX_FEE_GWEI',
      minimum: 1,
      maximum: 1_000_000,
      unit: 'gwei',
      description: 'The highest fee per gas that is ever offered.',
    }),
  }),
  feeds: Type.Object({
    live: Type.Boolean({
      env: 'SIBYL_FEEDS_LIVE',
      description:
        'Whether prices come from the providers below; if not, from the simulator of the devnet, ' +
        'and without a devnet there are none.',
    }),
    assets: Type.Array(Type.String({ pattern: '^[A-Z0-9]{1,16}$' }), {
      env: 'SIBYL_FEEDS_ASSETS',
      maxItems: 100,
      description: 'The assets that have prices and quick markets, separated by commas.',
    }),
    ageMsMax: Type.Integer({
      env: 'SIBYL_FEEDS_AGE_MS_MAX',
      minimum: 500,
      maximum: 600_000,
      unit: 'ms',
      description: 'A provider whose newest price is older does not speak.',
    }),
    recoverMs: Type.Integer({
      env: 'SIBYL_FEEDS_RECOVER_MS',
      minimum: 0,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'How long a provider that failed has to be well before it speaks again.',
    }),
    deviationBps: Type.Integer({
      env: 'SIBYL_FEEDS_DEVIATION_BPS',
      minimum: 1,
      maximum: 10_000,
      unit: 'bp',
      description: 'How far providers may be apart before nobody is believed, in hundredths of %.',
    }),
    jumpBps: Type.Integer({
      env: 'SIBYL_FEEDS_JUMP_BPS',
      minimum: 1,
      maximum: 100_000,
      unit: 'bp',
      description: 'How far one may jump without another that agrees.',
    }),
    publishMs: Type.Integer({
      env: 'SIBYL_FEEDS_PUBLISH_MS',
      minimum: 0,
      maximum: 60_000,
      unit: 'ms',
      description: 'The shortest time between two prices of an asset that leave.',
    }),
    pyth: Type.Object({
      url: Type.String({
        env: 'SIBYL_PYTH_URL',
        pattern: '^(https?://.+)?$',
        description: "Hermes; empty leaves Pyth out, as every provider's empty address does.",
      }),
      apiKey: Type.String({
        env: 'SIBYL_PYTH_API_KEY',
        secret: true,
        description: 'Its API key.',
      }),
      ids: Type.Record(Type.String(), Type.String({ pattern: '^(0x)?[0-9a-fA-F]{64}$' }), {
        env: 'SIBYL_PYTH_IDS',
        description: 'By asset: the id of its price feed, as JSON.',
      }),
    }),
    binance: Type.Object({
      url: Type.String({
        env: 'SIBYL_BINANCE_URL',
        pattern: '^(https?://.+)?$',
        description: 'Its REST API.',
      }),
      socketUrl: Type.String({
        env: 'SIBYL_BINANCE_SOCKET_URL',
        pattern: '^(wss?://.+)?$',
        description: 'Its market streams.',
      }),
      symbols: Type.Record(Type.String(), Type.String({ pattern: '^[A-Z0-9]{1,24}$' }), {
        env: 'SIBYL_BINANCE_SYMBOLS',
        description: 'By asset: its symbol, as JSON.',
      }),
    }),
    coinbase: Type.Object({
      url: Type.String({
        env: 'SIBYL_COINBASE_URL',
        pattern: '^(https?://.+)?$',
        description: 'Its REST API.',
      }),
      socketUrl: Type.String({
        env: 'SIBYL_COINBASE_SOCKET_URL',
        pattern: '^(wss?://.+)?$',
        description: 'Its market data feed.',
      }),
      products: Type.Record(Type.String(), Type.String({ pattern: '^[A-Z0-9-]{1,24}$' }), {
        env: 'SIBYL_COINBASE_PRODUCTS',
        description: 'By asset: its product, as JSON.',
      }),
    }),
    simulator: Type.Object({
      port: Type.Integer({
        env: 'SIBYL_FEEDS_SIMULATOR_PORT',
        minimum: 0,
        maximum: 65_535,
        description: 'The port of the simulator of the devnet. 0 takes a free one.',
      }),
      seed: Type.Integer({
        env: 'SIBYL_FEEDS_SIMULATOR_SEED',
        minimum: 0,
        maximum: 2_147_483_647,
        unit: 'number',
        description: 'The same seed gives the same prices at the same times.',
      }),
    }),
  }),
  quick: Type.Object({
    enabled: Type.Boolean({
      env: 'SIBYL_QUICK_MARKETS',
      description: 'Whether quick markets are opened, where there are prices and a chain.',
    }),
    intervalSeconds: Type.Integer({
      env: 'SIBYL_QUICK_INTERVAL_SECONDS',
      minimum: 2,
      maximum: 86_400,
      unit: 's',
      description: 'How long each lasts; they begin at multiples of it.',
    }),
    withinSeconds: Type.Integer({
      env: 'SIBYL_QUICK_WITHIN_SECONDS',
      minimum: 1,
      maximum: 3_600,
      unit: 's',
      description: 'A price later than this after a start or an end is not the price of it.',
    }),
    fallbackSeconds: Type.Integer({
      env: 'SIBYL_QUICK_FALLBACK_SECONDS',
      minimum: 1,
      maximum: 604_800,
      unit: 's',
      description: "How long the strike's own source is waited for before another decides.",
    }),
    pollMs: Type.Integer({
      env: 'SIBYL_QUICK_POLL_MS',
      minimum: 10,
      maximum: 60_000,
      unit: 'ms',
      description: 'How often the chain is asked about what was sent.',
    }),
  }),
  sse: Type.Object({
    readersMax: Type.Integer({
      env: 'SIBYL_SSE_READERS_MAX',
      minimum: 1,
      maximum: 10_000_000,
      unit: 'readers',
      description: 'Readers of price streams of one front thread; one more gets 503.',
    }),
    keepAliveMs: Type.Integer({
      env: 'SIBYL_SSE_KEEP_ALIVE_MS',
      minimum: 100,
      maximum: 600_000,
      unit: 'ms',
      description: 'How often a reader that hears no price hears a comment instead.',
    }),
    lagMsMax: Type.Integer({
      env: 'SIBYL_SSE_LAG_MS_MAX',
      minimum: 100,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'A reader that takes nothing for so long is cut off.',
    }),
    replayEvents: Type.Integer({
      env: 'SIBYL_SSE_REPLAY_EVENTS',
      minimum: 1,
      maximum: 100_000,
      unit: 'events',
      description: 'Prices of one asset kept for readers that come back.',
    }),
  }),
  demoMarkets: Type.Boolean({
    env: 'SIBYL_DEMO_MARKETS',
    description: 'Opens three markets to try things on, if there are none.',
  }),
  demoMarketsMore: Type.Integer({
    env: 'SIBYL_DEMO_MARKETS_MORE',
    minimum: 0,
    maximum: 10_000,
    unit: 'markets',
    description: 'So many besides, for load tests of an exchange without a chain.',
  }),
  stream: Type.Object({
    heartbeatMs: Type.Integer({
      env: 'SIBYL_STREAM_HEARTBEAT_MS',
      minimum: 100,
      maximum: 600_000,
      unit: 'ms',
      description: 'How often each WebSocket is told that all is well.',
    }),
    connectionsMax: Type.Integer({
      env: 'SIBYL_STREAM_CONNECTIONS_MAX',
      minimum: 1,
      maximum: 10_000_000,
      unit: 'sockets',
      description: 'WebSockets of one front thread; one more gets 503.',
    }),
    connectionsPerIp: Type.Integer({
      env: 'SIBYL_STREAM_CONNECTIONS_PER_IP',
      minimum: 1,
      maximum: 10_000_000,
      unit: 'sockets',
      description: 'WebSockets of one IPv4 address or IPv6 /64; one more gets 429.',
    }),
    subscriptionsMax: Type.Integer({
      env: 'SIBYL_STREAM_SUBSCRIPTIONS_MAX',
      minimum: 1,
      maximum: 100_000,
      unit: 'subscriptions',
      description: 'Subscriptions of one WebSocket.',
    }),
    messagesPerSecond: Type.Integer({
      env: 'SIBYL_STREAM_MESSAGES_PER_SECOND',
      minimum: 1,
      maximum: 1_000_000,
      unit: 'messages/s',
      description: 'Frames that one WebSocket may send per second.',
    }),
    messagesBurst: Type.Integer({
      env: 'SIBYL_STREAM_MESSAGES_BURST',
      minimum: 1,
      maximum: 1_000_000,
      unit: 'messages',
      description: 'Frames that it may send at once.',
    }),
    payloadBytesMax: Type.Integer({
      env: 'SIBYL_STREAM_PAYLOAD_BYTES_MAX',
      minimum: 1_024,
      maximum: 1_048_576,
      unit: 'bytes',
      description: 'The largest frame that a client may send.',
    }),
    idleTimeoutSec: Type.Integer({
      env: 'SIBYL_STREAM_IDLE_TIMEOUT_SEC',
      minimum: 8,
      maximum: 960,
      unit: 's',
      description: 'A WebSocket that answers no ping for so long is closed.',
    }),
    bufferBytesMax: Type.Integer({
      env: 'SIBYL_STREAM_BUFFER_BYTES_MAX',
      minimum: 4_096,
      maximum: 1_073_741_824,
      unit: 'bytes',
      description:
        'Bytes that wait for a slow reader; beyond them it misses messages and is told so.',
    }),
    lagMsMax: Type.Integer({
      env: 'SIBYL_STREAM_LAG_MS_MAX',
      minimum: 100,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'A reader that lags longer is closed with 4008.',
    }),
    requestsInFlightMax: Type.Integer({
      env: 'SIBYL_STREAM_REQUESTS_IN_FLIGHT_MAX',
      minimum: 1,
      maximum: 100_000,
      unit: 'requests',
      description: 'Orders and cancels of one WebSocket that wait for their answer.',
    }),
    heldOrdersMax: Type.Integer({
      env: 'SIBYL_STREAM_HELD_ORDERS_MAX',
      minimum: 1,
      maximum: 100_000,
      unit: 'orders',
      description: 'Open orders that one WebSocket may have cancelled when it disconnects.',
    }),
    reconnectSpreadMs: Type.Integer({
      env: 'SIBYL_STREAM_RECONNECT_SPREAD_MS',
      minimum: 1,
      maximum: 600_000,
      unit: 'ms',
      description: 'Clients are asked to come back within this time after a shutdown.',
    }),
    replayMessages: Type.Integer({
      env: 'SIBYL_STREAM_REPLAY_MESSAGES',
      minimum: 0,
      maximum: 1_000_000,
      unit: 'messages',
      description: 'Messages of one topic kept for clients that come back.',
    }),
    replayBytes: Type.Integer({
      env: 'SIBYL_STREAM_REPLAY_BYTES',
      minimum: 0,
      maximum: 1_073_741_824,
      unit: 'bytes',
      description: '… and their bytes.',
    }),
    replayBytesTotal: Type.Integer({
      env: 'SIBYL_STREAM_REPLAY_BYTES_TOTAL',
      minimum: 0,
      maximum: 68_719_476_736,
      unit: 'bytes',
      description: 'Bytes kept by all topics of one front thread together.',
    }),
    lingerMs: Type.Integer({
      env: 'SIBYL_STREAM_LINGER_MS',
      minimum: 0,
      maximum: 86_400_000,
      unit: 'ms',
      description: 'How long a topic is kept after its last subscriber left.',
    }),
    lingeringMax: Type.Integer({
      env: 'SIBYL_STREAM_LINGERING_MAX',
      minimum: 0,
      maximum: 10_000_000,
      unit: 'topics',
      description: 'Topics without subscribers that are kept at once.',
    }),
  }),
  supervisor: Type.Object({
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
      description: 'How often each thread is asked how it is.',
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
    restartsMax: Type.Integer({
      env: 'SIBYL_RESTARTS_MAX',
      minimum: 0,
      maximum: 1_000,
      unit: 'restarts',
      description: 'Restarts of one thread within the window before the exchange gives up.',
    }),
    restartWindowMs: Type.Integer({
      env: 'SIBYL_RESTART_WINDOW_MS',
      minimum: 1_000,
      maximum: 86_400_000,
      unit: 'ms',
      description: 'The window in which restarts are counted.',
    }),
  }),
  log: Type.Object({
    level: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      env: 'SIBYL_LOG_LEVEL',
      description: 'The least important messages to write.',
    }),
    format: Type.Enum(['auto', 'json', 'pretty'], {
      env: 'SIBYL_LOG_FORMAT',
      description: 'json, pretty, or auto: pretty on a terminal, json elsewhere.',
    }),
  }),
})

export type Settings = Static<typeof SettingsSchema>

type PartialDeep<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: PartialDeep<T[K]> }
    : T

/** What a profile may say: any part of the settings. */
export type Profile = PartialDeep<Settings>

/** One line that names the setting and says what is wrong with it. */
export class SettingsError extends Error {}

const PROFILES: Record<string, Profile> = { default: {}, devnet, production }

/** A setting's own schema with what this file notes beside it. */
type Leaf = TSchema & {
  env: string
  unit?: string
  secret?: boolean
  description: string
  type?: string
}

/** The path of every setting (`front.port`) and its schema. */
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
  env: Readonly<Record<string, string | undefined>> = process.env,
): Settings {
  const list = settingsList()
  const known = new Map(list.map((entry) => [entry.leaf.env, entry]))
  for (const name of Object.keys(env)) {
    if (name.startsWith('SIBYL_') && !name.startsWith('SIBYL_TEST_') && !known.has(name)) {
      throw new SettingsError(`${name}: there is no such setting`)
    }
  }
  const profileName = env.SIBYL_PROFILE ?? 'devnet'
  const profile = PROFILES[profileName]
  if (profile === undefined) {
    const names = Object.keys(PROFILES).join(', ')
    throw new SettingsError(`SIBYL_PROFILE: must be one of ${names}, but it is "${profileName}"`)
  }
  const settings = structuredClone(defaults) as unknown as Record<string, unknown>
  merge(settings, profile as Record<string, unknown>)
  for (const { path, leaf } of list) {
    const text = env[leaf.env]
    if (text === undefined) continue
    const value = parseText(leaf.secret ? withKeyFiles(text, leaf) : text, leaf)
    const problem = problemOf(leaf, value)
    if (problem !== undefined) {
      const shown = leaf.secret ? '' : `, but it is ${JSON.stringify(text)}`
      throw new SettingsError(`${leaf.env}: ${problem}${shown}`)
    }
    put(settings, path, value)
  }
  for (const { path, leaf } of list) {
    const problem = problemOf(leaf, get(settings, path))
    if (problem !== undefined) throw new SettingsError(`${path} (${leaf.env}): ${problem}`)
  }
  const checked = followCores(settings as unknown as Settings, availableParallelism())
  checkTogether(checked)
  return checked
}

/** Counts of threads that are left open follow the cores. */
export function followCores(settings: Settings, cores: number): Settings {
  const { front, markets, verify } = settings
  const counts = threadsFor(cores)
  return {
    ...settings,
    front: { ...front, threads: front.threads || counts.front },
    markets: {
      ...markets,
      threads: markets.threads || Math.min(counts.market, markets.partitions),
    },
    verify: { threads: verify.threads || counts.verify },
  }
}

/** What no single setting shows. */
function checkTogether(settings: Settings): void {
  const { front, auth, limits, markets } = settings
  if (!auth.bearer && !auth.allowOpenWrites && !isLoopback(front.host)) {
    throw new SettingsError(
      `SIBYL_AUTH_BEARER: writes without tokens on ${front.host}, which others can reach, need ` +
        'SIBYL_ALLOW_OPEN_WRITES=true',
    )
  }
  for (const [name, burst] of [
    ['SIBYL_LIMIT_IP_BURST', limits.ipBurst],
    ['SIBYL_LIMIT_KEY_BURST', limits.keyBurst],
  ] as const) {
    const dearest = Math.max(limits.writeCost * BATCH_ORDERS_MAX, limits.registrationCost)
    if (limits.enabled && burst < dearest) {
      throw new SettingsError(`${name}: ${burst} never pays for a request that costs ${dearest}`)
    }
  }
  for (const proxy of front.trustedProxies) {
    const [address = '', bits = '0'] = proxy.split('/')
    if (isIP(address) === 0 || Number(bits) > (isIP(address) === 4 ? 32 : 128)) {
      throw new SettingsError(`SIBYL_TRUSTED_PROXIES: ${proxy} is no address and no range`)
    }
  }
  if (settings.chainRpc.length > 0 && settings.chains.length !== 1) {
    throw new SettingsError(
      `SIBYL_CHAIN_RPC: SIBYL_CHAINS has ${settings.chains.length} chains; give each its rpcUrls there`,
    )
  }
  if (markets.threads > markets.partitions) {
    throw new SettingsError(
      `SIBYL_MARKET_THREADS: ${markets.threads} threads cannot share the ${markets.partitions} ` +
        'partitions of SIBYL_LOG_PARTITIONS',
    )
  }
  for (const [market, partition] of Object.entries(markets.pins)) {
    if (!/^0x[0-9a-f]{64}$/.test(market)) {
      throw new SettingsError(
        `SIBYL_MARKET_PINS: ${market} is no market id, 0x and 64 lower-case hexadecimal digits`,
      )
    }
    if (partition >= markets.partitions) {
      throw new SettingsError(
        `SIBYL_MARKET_PINS: ${market} is pinned to partition ${partition} of ${markets.partitions}`,
      )
    }
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

/** The settings as one may show them: secrets are replaced. */
export function shownSettings(settings: Settings): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  for (const { path, leaf } of settingsList()) {
    const value = get(settings as unknown as Record<string, unknown>, path)
    const isSet = Array.isArray(value) ? value.length > 0 : value !== ''
    shown[path] = leaf.secret && isSet ? '(set)' : value
  }
  return shown
}

/** Private keys may be files. What is no key and no file is not shown: it could be half a key. */
function withKeyFiles(text: string, leaf: Leaf): string {
  const { pattern, items } = leaf as { pattern?: string; items?: { pattern?: string } }
  if ((items?.pattern ?? pattern) !== Key) return text
  const keys = text.split(',').map((part) => {
    const named = part.trim()
    if (named === '' || named.startsWith('0x')) return named
    try {
      return readFileSync(named, 'utf8').trim()
    } catch {
      throw new SettingsError(`${leaf.env}: it is neither a key (0x…) nor a file that can be read`)
    }
  })
  return keys.join(',')
}

function parseText(text: string, leaf: Leaf): unknown {
  if (leaf.type === 'integer') return /^-?\d{1,15}$/.test(text) ? Number(text) : text
  if (leaf.type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  const items = (leaf as { items?: { type?: string } }).items
  if (leaf.type === 'array' && items?.type === 'string') {
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
  const where = first.instancePath === '' ? '' : ` at ${first.instancePath}`
  return `${first.message}${where}`
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

function get(settings: Record<string, unknown>, path: string): unknown {
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
