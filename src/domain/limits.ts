/**
 * Limits of the design: those of the spec, and the maximum size of every queue, map and batch. Limits
 * that an operator may tune are in `config/`.
 */

/** An order must expire at least this long after it is submitted. */
export const ORDER_EXPIRATION_AHEAD_SEC_MIN = 60

/** Maximum request body: that of a batch. */
export const BODY_BYTES_MAX = 64 * 1024

/** Maximum body of a request for one item. */
export const SMALL_BODY_BYTES_MAX = 4 * 1024

/** Orders in one `POST /api/v1/orders/batch`. */
export const BATCH_ORDERS_MAX = 100

/** Unanswered requests per side of a channel before it answers `full` itself. */
export const CHANNEL_IN_FLIGHT_MAX = 16_384

/** Messages per `postMessage`. Larger batches save little more, and the other thread waits longer for them. */
export const CHANNEL_BATCH_MAX = 128

/** Commands in one commit of a market thread. */
export const COMMIT_COMMANDS_MAX = 4_096

/** Open markets per exchange. */
export const MARKETS_OPEN_MAX = 100_000

/** Removed markets that a front still distinguishes from unknown ones. */
export const MARKETS_GONE_KNOWN_MAX = 10_000

/** Resting orders per market, both outcomes together. */
export const ORDERS_PER_MARKET_MAX = 4_000_000

/** Open orders per trader and market. */
export const ORDERS_PER_TRADER_MAX = 10_000

/**
 * Traders whose cancels without a fill a market thread counts; above it the trader with the oldest cancel is dropped.
 */
export const QUOTA_TRADERS_MAX = 50_000
/** Bounds of a dead-man switch's time, and the switches that a front reads ahead. */
export const DEADMAN_MS_MIN = 1_000
export const DEADMAN_MS_MAX = 86_400_000
export const DEADMAN_SWITCHES_MAX = 10_000
/** Characters of an order's label, and of the name of its group. */
export const LABEL_CHARS_MAX = 32
/** Orders of one group in one market that rest, or may return. A step can cancel all of them. */
export const GROUP_ORDERS_MAX = 1_000
/** Bounds of a group's protection: the fills that it allows, and the time within which they are counted. */
export const PROTECTION_FILLS_MAX = 1_000
export const PROTECTION_WINDOW_MS_MAX = 60_000
/** Replacements in one market that one step carries out. */
export const REPLACEMENTS_PER_STEP_MAX = 20

/** Orders of a trader that are cancelled in one step; the rest wait for the next. */
export const DEPARTURES_MAX = 1_000

/** Orders that one expiry step removes, from all markets of a log partition together. */
export const EXPIRATIONS_MAX = 2_000

/** Orders that `DELETE /api/v1/orders` lists; its count includes all. */
export const CANCELLED_LISTED_MAX = 10_000

/** Open orders per page, and per snapshot of the stream. */
export const OPEN_ORDERS_LISTED_MAX = 1_000
export const OPEN_ORDERS_SNAPSHOT_MAX = 500

/** Number of events after which a market thread commits, even if more commands wait. */
export const COMMIT_EVENTS_MAX = 8_192

/** Markets per message of a market thread. */
export const MARKETS_PER_MESSAGE_MAX = 1_000

/** Orders per relayed cancellation; another operation cancels all orders of a trader. */
export const RELAYED_CANCELLATIONS_MAX = 20

/** Makers that one incoming order may match; its remainder is cancelled. */
export const MAKERS_PER_ORDER_MAX = 10_000

/** Makers per `OrdersMatched` event; more become several events. */
export const MAKERS_PER_EVENT_MAX = 1_000

/** Trades listed by `GET /api/v1/trades/{marketId}`. */
export const TRADES_LISTED_MAX = 100

/** Trades listed by `GET /api/v1/activity/{marketId}`. */
export const ACTIVITY_LISTED_MAX = 50

/** Entries of `GET /api/v1/users/{address}/activity`: maximum and default. */
export const USER_ACTIVITY_LISTED_MAX = 100
export const USER_ACTIVITY_LISTED = 50

/** Holders listed by `GET /api/v1/holders/{marketId}`. */
export const HOLDERS_LISTED_MAX = 10

/** Positions per page of `GET /api/v1/users/{address}/positions`. */
export const POSITIONS_LISTED_MAX = 1_000

/**
 * Positions read from the chain ahead of the indexer, per user, per market and per chain. Above it the oldest are
 * dropped.
 */
export const POSITION_SYNCS_PER_HOLDER_MAX = 100
export const POSITION_SYNCS_PER_MARKET_MAX = 1_000
export const POSITION_SYNCS_MAX = 10_000

/** Candles per `GET /api/v1/candles/{marketId}`. */
export const CANDLES_LISTED_MAX = 300

/** Maximum number of answers in a front's short-lived cache, and of their bytes. */
export const READS_KEPT_MAX = 10_000
export const READS_KEPT_BYTES_MAX = 64 * 1024 * 1024

/** Bytes of market answers that one front caches until their next change. */
export const ANSWERS_KEPT_BYTES_MAX = 64 * 1024 * 1024

/** Answers about ended or unknown markets that one front caches for a moment. */
export const OVER_KEPT_MAX = 2_000
export const OVER_KEPT_BYTES_MAX = 32 * 1024 * 1024

/** Orders of a closed market that one database transaction ends. */
export const ORDERS_ENDED_MAX = 250

/** Rows per database transaction of the projector. */
export const PROJECTION_ROWS_MAX = 2_000

/** Events that one turn adds to the public log. */
export const PUBLIC_LOG_EVENTS_PER_TURN = 8_192

/** Orders of one `GET /api/v1/transparency/signatures`: their hashes must fit into the headers of a request. */
export const SIGNATURES_LISTED_MAX = 40

/** Entries of the public log that are searched for an event, starting at the event's time. */
export const PUBLIC_ENTRIES_SEARCHED_MAX = 256

/** Limits of one archive file of the public log: segments that it is read from, and the size after which it ends. */
export const ARCHIVE_SEGMENTS_MAX = 4
export const ARCHIVE_BYTES_MAX = 4 * 1024 * 1024
/**
 * Leaves after the stored books that a past book or an archive may read; if there are more, the index is too far
 * behind.
 */
export const HISTORY_TAIL_LEAVES_MAX = 8_192
/** Past books and archive files that wait for their thread, and those of one address among them. */
export const HISTORY_WAITING_MAX = 32
export const HISTORY_PER_ADDRESS_MAX = 4

/** Orders per task for the verify pool; more orders in the same tick become several tasks. */
export const VERIFY_BATCH_MAX = 32

/** Orders per front thread that wait for or are in the verify pool. */
export const VERIFY_HELD_MAX = 4_096

/** Market texts cached by each thread that reads the database. */
export const MARKET_TEXTS_MAX = 16_384

/** Cached checksummed addresses. */
export const CHECKSUM_ADDRESSES_MAX = 32_768

/** Active API keys per address; one more revokes the oldest. */
export const API_KEYS_PER_ADDRESS_MAX = 20

/** Validity of a bearer token from its `ts`. */
export const TOKEN_LIFE_SEC = 300

/** Registrations and revocations of API keys that wait for the database. */
export const API_KEY_WRITES_WAITING_MAX = 256

/** Maximum time by which a token's `ts` may be ahead of the server's clock. */
export const TOKEN_AHEAD_SEC_MAX = 60

/** Characters of an API key's name. */
export const API_KEY_NAME_CHARS_MAX = 100

/** Writes of other actors that wait for the database; further ones are rejected. */
export const WRITES_WAITING_MAX = 4_096

/** Maximum number of writes that share one commit of the database. */
export const WRITES_TOGETHER_MAX = 64

/** Number of prices in `GET /api/v1/quick-markets/{asset}/price-history`, one per second. */
export const PRICE_HISTORY_SEC = 20 * 60

/** Quick markets listed by `GET /api/v1/quick-markets/{asset}/history`. */
export const QUICK_MARKETS_LISTED_MAX = 100

/** Quick markets that wait for a price or for the chain; if there are more, the oldest are resumed after a restart. */
export const QUICK_MARKETS_UNFINISHED_MAX = 10_000

/** Prices that wait for the database; above it the oldest are dropped. */
export const PRICES_WAITING_MAX = 10_000

/** Operations in progress per chain in the relayer. */
export const RELAYS_UNDERWAY_MAX = 1_000
/** Number of operations in progress above which the relayer accepts only redemptions. */
export const RELAYS_UNREDEEMING_MAX = 750
/** Queued operations under one owner's address: until they are examined, any client may claim to be the owner. */
export const RELAYS_IN_LINE_MAX = 16

/** Trades that a rejection lists; there may be more. */
export const TRADES_NAMED_MAX = 100

/** Traders that the relayer can hold at a market thread at once. */
export const TRADERS_HELD_MAX = 10_000

/** Open orders per trader that a market thread adds up for the relayer. */
export const ORDERS_WEIGHED_MAX = 1_000

/** Callers that wait for the same operation. */
export const RELAY_TICKETS_MAX = 32

/** Owners with a rate and a gas budget in the relayer's memory. */
export const RELAY_OWNERS_KNOWN_MAX = 50_000

/** Claims listed by `GET /api/v1/pending-claims` and `/failed-claims`. */
export const CLAIMS_LISTED_MAX = 1_000

/** Resolutions in progress at once, and resolutions per read. */
export const RESOLUTIONS_UNDERWAY_MAX = 32
export const RESOLUTIONS_READ_MAX = 1_000

/** Trades in settlement's memory; the others wait in the database. */
export const SETTLEMENT_HELD_MAX = 10_000

/** Recently ended trades that settlement ignores. */
export const SETTLEMENT_ENDED_MAX = 100_000

/** Unanswered reports of settlement to markets. */
export const SETTLEMENT_REPORTS_MAX = 512

/** Maximum number of remembered orders whose permit is used. */
export const SETTLEMENT_PERMITS_MAX = 10_000

/** Permits per trader that may wait for each other; settlement sends at most this many with a trade. */
export const PERMITS_AHEAD_MAX = 32

/** Trades listed by `GET /api/v1/pending-trades` and `/api/v1/failed-trades`: maximum and default. */
export const TRADES_OF_ALL_LISTED_MAX = 1_000
export const TRADES_OF_ALL_LISTED = 100

/** A read with `minSeq` waits this long. A front is usually a few milliseconds behind. */
export const SEQ_WAIT_SEC_MAX = 2

/** A list of failed trades goes back this far. */
export const FAILED_TRADES_LISTED_HOURS = 24

/** Chain events per transaction; a range with more is read in parts. */
export const CHAIN_EVENTS_PER_RANGE_MAX = 10_000

/**
 * Up to this many blocks, every header is read to notice missing logs. Near the head no more blocks are read at once,
 * because a node may not have the logs of its newest blocks yet.
 */
export const CHAIN_HEADERS_PER_RANGE_MAX = 32

/** Set-aside chain events that are listed: the newest. */
export const CHAIN_SET_ASIDE_MAX = 1_000

/** Characters of a market's question and description, and of the names in a quick market. */
export const MARKET_TEXT_CHARS_MAX = 65_536
export const MARKET_NAME_CHARS_MAX = 64

/** Block hashes that are kept: a deeper reorg means another chain. */
export const CHAIN_MARKS_MAX = 1_024

/** Markets that are opened or closed at once when actors are compared with the chain. */
export const MARKETS_RECONCILED_MAX = 1_000

/** Bytes of an event's metadata, its tags, and its markets. */
export const EVENT_BYTES_MAX = 8_192
export const EVENT_TAGS_MAX = 8
export const EVENT_MARKETS_MAX = 100

/** Events per page of `GET /api/v1/events`, and the markets that it shows of each. */
export const EVENTS_LISTED_MAX = 50
export const EVENTS_LISTED = 20
export const EVENT_MARKETS_LISTED = 5

/** Events that one page of a filtered list scans; its cursor continues after them. */
export const EVENTS_SCANNED_MAX = 1_000

/** Markets whose event a front remembers, and traded markets whose events wait for a new volume. */
export const MARKET_EVENTS_KEPT_MAX = 100_000
export const EVENT_VOLUMES_WAITING_MAX = 100_000

/** Markets per page of `GET /api/v1/markets`. */
export const MARKETS_LISTED_MAX = 1_000

/** Markets per message of the `ticker` channel, and per subscription. */
export const TICKERS_PER_MESSAGE_MAX = 500
export const TICKERS_NAMED_MAX = 200

/** Markets with figures for lists and tickers in a front. */
export const FIGURES_KEPT_MAX = 100_000

/** Characters of a search for markets. */
export const SEARCH_CHARS_MAX = 200

/** Traders per chain with daily spending; those charged longest ago are evicted. */
export const SPENDING_TRADERS_MAX = 100_000

/** Traders per chain with remembered faults; above it the oldest are evicted. */
export const PAUSED_TRADERS_MAX = 50_000

/** Unsettled trades per chain in a market thread; above it the chain's markets accept cancels only. */
export const PENDING_TRADES_MAX = 1_000_000

/** Best levels of each side of a book in the stream. REST lists all. */
export const BOOK_LEVELS_SHOWN_MAX = 1_000

/** Bytes of snapshots that a front's stream caches until the next change. */
export const SNAPSHOTS_KEPT_BYTES_MAX = 32 * 1024 * 1024

/** Bytes of the requests and frames that wait for their turn at a front. */
export const WAITING_BYTES_MAX = 16 * 1024 * 1024

/** Markets in the list of a delegation; the contract refuses more. */
export const DELEGATE_MARKETS_MAX = 32

/** Delegates of an account that a front knows and lists. */
export const DELEGATES_PER_ACCOUNT_MAX = 100

/** Open orders of a delegate whose open notional is limited. */
export const DELEGATED_ORDERS_MAX = 1_000

/** Rate limit of signature queries to contract accounts, per client and per account: per second, and burst. */
export const CONTRACT_SIGNATURES_PER_SECOND = 10
export const CONTRACT_SIGNATURES_BURST = 40

/** Concurrent signature queries to contract accounts per front, and waiting ones; further orders are refused. */
export const CONTRACT_SIGNATURES_AT_ONCE_MAX = 16
export const CONTRACT_SIGNATURES_WAITING_MAX = 200

/** Answers of contract accounts that a front remembers until the next block. */
export const CONTRACT_SIGNATURES_KEPT_MAX = 10_000
