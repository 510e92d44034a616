/**
 * The limits that belong to the design: what the spec fixes, and how much any queue, map or batch
 * in the process may hold. What an operator may tune is in `config/` instead.
 */

/** An order must live at least this long after it is submitted. */
export const ORDER_EXPIRATION_AHEAD_SEC_MIN = 60

/** The largest request body: that of a batch. */
export const BODY_BYTES_MAX = 64 * 1024

/** The largest body of a request for one item. */
export const SMALL_BODY_BYTES_MAX = 4 * 1024

/** Orders in one `POST /api/v1/orders/batch`. */
export const BATCH_ORDERS_MAX = 100

/** Requests that one side of a channel may have unanswered before it answers `full` itself. */
export const CHANNEL_IN_FLIGHT_MAX = 16_384

/**
 * Messages of one `postMessage`. Larger batches save little more, and keep the other thread waiting
 * while this one gathers.
 */
export const CHANNEL_BATCH_MAX = 128

/** Commands that one market thread takes into one commit. */
export const COMMIT_COMMANDS_MAX = 4_096

/** Markets that one exchange holds open at once. */
export const MARKETS_OPEN_MAX = 100_000

/** Markets that are over and gone, and that a front still tells from those that never were. */
export const MARKETS_GONE_KNOWN_MAX = 10_000

/** Orders that rest in one market at once, both outcomes together. */
export const ORDERS_PER_MARKET_MAX = 4_000_000

/** Open orders of one trader in one market. */
export const ORDERS_PER_TRADER_MAX = 10_000

/** Traders whose cancels without a fill one market thread counts; of more, the one longest ago is forgotten. */
export const QUOTA_TRADERS_MAX = 50_000
/** Orders of a trader that leave a market in one step; the rest are left to the next one. */
export const DEPARTURES_MAX = 1_000

/** Orders that a step of expiring takes out, of all markets of a log partition together. */
export const EXPIRATIONS_MAX = 2_000

/** Orders that `DELETE /api/v1/orders` names; it counts all. */
export const CANCELLED_LISTED_MAX = 10_000

/** Open orders of one page, and of a snapshot of the stream. */
export const OPEN_ORDERS_LISTED_MAX = 1_000
export const OPEN_ORDERS_SNAPSHOT_MAX = 500

/** Events after which a market thread commits, whatever commands still wait. */
export const COMMIT_EVENTS_MAX = 8_192

/** Markets that a market thread tells in one message. */
export const MARKETS_TOLD_MAX = 1_000

/** Orders that one relayed cancellation may name; there is one for all orders of a trader too. */
export const RELAYED_CANCELLATIONS_MAX = 20

/** Makers that one incoming order may meet; what remains of it after them is cancelled. */
export const MAKERS_PER_ORDER_MAX = 10_000

/** Makers that one `OrdersMatched` event tells of; more make several events. */
export const MAKERS_PER_EVENT_MAX = 1_000

/** Trades listed by `GET /api/v1/trades/{marketId}`. */
export const TRADES_LISTED_MAX = 100

/** Trades listed by `GET /api/v1/activity/{marketId}`. */
export const ACTIVITY_LISTED_MAX = 50

/** Entries of `GET /api/v1/users/{address}/activity`, and how many unless said. */
export const USER_ACTIVITY_LISTED_MAX = 100
export const USER_ACTIVITY_LISTED = 50

/** Holders named by `GET /api/v1/holders/{marketId}`. */
export const HOLDERS_LISTED_MAX = 10

/** Positions of one page of `GET /api/v1/users/{address}/positions`. */
export const POSITIONS_LISTED_MAX = 1_000

/**
 * Positions that were read from the chain ahead of the indexer, of one user, of one market and of one
 * chain. Of more, the oldest make way.
 */
export const POSITION_SYNCS_PER_HOLDER_MAX = 100
export const POSITION_SYNCS_PER_MARKET_MAX = 1_000
export const POSITION_SYNCS_MAX = 10_000

/** Candles of one `GET /api/v1/candles/{marketId}`. */
export const CANDLES_LISTED_MAX = 300

/** Answers that one front keeps for a moment, and their bytes. */
export const READS_KEPT_MAX = 10_000
export const READS_KEPT_BYTES_MAX = 64 * 1024 * 1024

/** Bytes of the answers of markets that one front keeps until their next change. */
export const ANSWERS_KEPT_BYTES_MAX = 64 * 1024 * 1024

/** Answers of markets that are over, or that never were, which one front keeps for a moment. */
export const OVER_KEPT_MAX = 2_000
export const OVER_KEPT_BYTES_MAX = 32 * 1024 * 1024

/** Orders of a closed market that one transaction of the database ends. */
export const ORDERS_ENDED_MAX = 250

/** Rows the projector writes in one database transaction. */
export const PROJECTION_ROWS_MAX = 2_000

/** Orders of one task for the verify pool; more of one tick go out as several tasks. */
export const VERIFY_BATCH_MAX = 32

/** Orders that one front thread may have waiting for or in the verify pool. */
export const VERIFY_HELD_MAX = 4_096

/** Markets whose words a thread that reads the database remembers. */
export const MARKET_WORDS_MAX = 16_384

/** Addresses whose checksummed form is remembered. */
export const CHECKSUM_ADDRESSES_MAX = 32_768

/** Active API keys of one address; one more revokes the oldest. */
export const API_KEYS_PER_ADDRESS_MAX = 20

/** How long a bearer token is good for, from its `ts`. */
export const TOKEN_LIFE_SEC = 300

/** Registrations and revocations of API keys that wait for the database. */
export const API_KEY_WRITES_WAITING_MAX = 256

/** How far ahead of ours the clock of a token's maker may be. */
export const TOKEN_AHEAD_SEC_MAX = 60

/** Characters of the name that an owner gives to an API key. */
export const API_KEY_NAME_CHARS_MAX = 100

/** Writes of other actors that wait for the database; one more is refused. */
export const WRITES_WAITING_MAX = 4_096

/** Writes that share one commit of the database. */
export const WRITES_TOGETHER_MAX = 64

/** How far back `GET /api/v1/quick-markets/{asset}/price-history` goes, one price a second. */
export const PRICE_HISTORY_SEC = 20 * 60

/** Quick markets listed by `GET /api/v1/quick-markets/{asset}/history`. */
export const QUICK_MARKETS_LISTED_MAX = 100

/** Quick markets that wait for a price or for the chain; beyond that the oldest wait for a restart. */
export const QUICK_MARKETS_UNFINISHED_MAX = 10_000

/** Prices that wait for the database; of more, the oldest are forgotten. */
export const PRICES_WAITING_MAX = 10_000

/** Operations that one chain's relayer has under way. */
export const RELAYS_UNDERWAY_MAX = 1_000
/** … before it takes nothing but redemptions. */
export const RELAYS_UNREDEEMING_MAX = 750
/** Operations in one owner's name that are in one line: anybody may claim to be him until they are examined. */
export const RELAYS_IN_LINE_MAX = 16

/** Trades that a refusal names; there may be more of them. */
export const TRADES_NAMED_MAX = 100

/** Traders that the relayer can hold at a market thread at once. */
export const TRADERS_HELD_MAX = 10_000

/** Open orders of a trader whose needs a market thread adds up for the relayer. */
export const ORDERS_WEIGHED_MAX = 1_000

/** Callers that wait for the same operation. */
export const RELAY_TICKETS_MAX = 32

/** Owners whose rate and gas the relayer has in mind. */
export const RELAY_OWNERS_KNOWN_MAX = 50_000

/** Claims listed by `GET /api/v1/pending-claims` and `/failed-claims`. */
export const CLAIMS_LISTED_MAX = 1_000

/** Resolutions that are being settled at once, and that one look reads. */
export const RESOLUTIONS_UNDERWAY_MAX = 32
export const RESOLUTIONS_READ_MAX = 1_000

/** Trades that settlement has in hand at once; the others wait in the database. */
export const SETTLEMENT_HELD_MAX = 10_000

/** Trades that have ended lately and that settlement does not take up again. */
export const SETTLEMENT_ENDED_MAX = 100_000

/** Reports to markets that settlement has unanswered at once. */
export const SETTLEMENT_REPORTS_MAX = 512

/** Orders whose permit is known to have been used. */
export const SETTLEMENT_PERMITS_MAX = 10_000

/** Permits of one trader that may wait for each other; settlement sends at most this many along. */
export const PERMITS_AHEAD_MAX = 32

/** Trades listed by `GET /api/v1/pending-trades` and `/api/v1/failed-trades`, and how many unless said. */
export const TRADES_OF_ALL_LISTED_MAX = 1_000
export const TRADES_OF_ALL_LISTED = 100

/** A read with `minSeq` waits this long. A front is usually a few milliseconds behind. */
export const SEQ_WAIT_SEC_MAX = 2

/** A list of failed trades goes back this far. */
export const FAILED_TRADES_LISTED_HOURS = 24

/** Events of the chain that are written in one transaction; a range that has more is read in parts. */
export const CHAIN_EVENTS_PER_RANGE_MAX = 10_000

/**
 * Up to so many blocks of a chain are read with every header, by which logs that are missing are noticed; and so
 * close to the head no more are read at once, since a node may not have the logs of its newest blocks yet.
 */
export const CHAIN_HEADERS_PER_RANGE_MAX = 32

/** Events of a chain that were set aside and are listed: the newest ones. */
export const CHAIN_SET_ASIDE_MAX = 1_000

/** Characters of a market's question and description, and of the names in a quick market. */
export const MARKET_WORDS_CHARS_MAX = 65_536
export const MARKET_NAME_CHARS_MAX = 64

/** Blocks whose hashes are kept: a reorg that goes deeper than all of them is another chain. */
export const CHAIN_MARKS_MAX = 1_024

/** Markets that are opened or closed in one go when their actors are compared with the chain. */
export const MARKETS_RECONCILED_MAX = 1_000

/** Markets of one page of `GET /api/v1/markets`. */
export const MARKETS_LISTED_MAX = 1_000

/** Markets of one message of the `ticker` channel, and those that one subscription may name. */
export const TICKERS_TOLD_MAX = 500
export const TICKERS_NAMED_MAX = 200

/** Markets whose figures a front keeps for lists and tickers. */
export const FIGURES_KEPT_MAX = 100_000

/** Characters of the words that markets are searched by. */
export const SEARCH_CHARS_MAX = 200

/** Traders of one chain whose daily spending is kept; those charged longest ago are evicted. */
export const SPENDING_TRADERS_MAX = 100_000

/** Traders of one chain whose faults are remembered; the oldest give way. */
export const PAUSED_TRADERS_MAX = 50_000

/** Unsettled trades of one chain that a market thread keeps; beyond it the chain's markets take cancels only. */
export const PENDING_TRADES_MAX = 1_000_000

/** Levels of each side of a book that the stream shows, the best ones. REST lists all. */
export const BOOK_LEVELS_SHOWN_MAX = 1_000

/** Bytes of snapshots that the stream of one front keeps until the next change. */
export const SNAPSHOTS_KEPT_BYTES_MAX = 32 * 1024 * 1024

/** Bytes of frames that wait for their turn, of all connections of one front. */
export const FRAMES_WAITING_BYTES_MAX = 16 * 1024 * 1024
