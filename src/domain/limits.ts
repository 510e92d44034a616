/**
 * Limits that are fixed in the code: the limits of the specification, and the maximum size of every queue, map and
 * batch. Limits that an operator may tune are in `config/`.
 */

/** Minimum time in seconds from the submission of an order to its expiration. */
export const ORDER_EXPIRATION_AHEAD_SEC_MIN = 60

/** Maximum number of bytes of a request body; batches have the largest bodies. */
export const BODY_BYTES_MAX = 64 * 1024

/** Maximum number of bytes of the body of a request for one item. */
export const SMALL_BODY_BYTES_MAX = 4 * 1024

/** Maximum number of orders in one `POST /api/v1/orders/batch`. */
export const BATCH_ORDERS_MAX = 100

/**
 * Maximum number of unanswered requests in each direction of a channel between two threads. A further request is not
 * sent; its caller receives the answer `full`.
 */
export const CHANNEL_IN_FLIGHT_MAX = 16_384

/**
 * Maximum number of messages in one `postMessage`. A larger batch would save hardly any more time, and would
 * reach the other thread later.
 */
export const CHANNEL_BATCH_MAX = 128

/** Maximum number of commands in one commit of a market thread. */
export const COMMIT_COMMANDS_MAX = 4_096

/** Maximum number of open markets of an exchange. */
export const MARKETS_OPEN_MAX = 100_000

/**
 * Maximum number of removed markets that a front remembers. Orders for a remembered market are rejected with
 * `MARKET_CLOSED`, orders for an unknown market with `MARKET_NOT_FOUND`.
 */
export const MARKETS_GONE_KNOWN_MAX = 10_000

/** Maximum number of resting orders of a market, both outcomes together. */
export const ORDERS_PER_MARKET_MAX = 4_000_000

/** Maximum number of open orders of one trader in one market. */
export const ORDERS_PER_TRADER_MAX = 10_000

/**
 * Maximum number of traders for whom a market thread counts cancels of orders without a fill. If there are more, the
 * thread forgets the trader whose last such cancel is oldest.
 */
export const QUOTA_TRADERS_MAX = 50_000
/**
 * Minimum and maximum time, in milliseconds, after which a dead-man switch cancels orders. `DEADMAN_SWITCHES_MAX`:
 * maximum number of switches, due now or soon, that a front loads with one database read.
 */
export const DEADMAN_MS_MIN = 1_000
export const DEADMAN_MS_MAX = 86_400_000
export const DEADMAN_SWITCHES_MAX = 10_000
/** Maximum number of characters of an order's label, and of its group's name. */
export const LABEL_CHARS_MAX = 32
/**
 * Maximum number of orders of one group in one market: resting orders, and orders that a failed trade may return to the
 * book. One step can cancel all of them.
 */
export const GROUP_ORDERS_MAX = 1_000
/**
 * Maximum values of a group's protection: the number of fills that it allows, and the length of its time window in
 * milliseconds.
 */
export const PROTECTION_FILLS_MAX = 1_000
export const PROTECTION_WINDOW_MS_MAX = 60_000
/** Maximum number of orders that one step of a market replaces. */
export const REPLACEMENTS_PER_STEP_MAX = 20

/** Maximum number of orders of a trader that one step cancels; the next steps cancel the remaining orders. */
export const DEPARTURES_MAX = 1_000

/** Maximum number of expired orders that one step removes, from all markets of a log partition together. */
export const EXPIRATIONS_MAX = 2_000

/**
 * Maximum number of orders that the answer of `DELETE /api/v1/orders` lists. The count in the answer includes all
 * cancelled orders.
 */
export const CANCELLED_LISTED_MAX = 10_000

/** Maximum number of open orders on a page, and in a snapshot of the stream. */
export const OPEN_ORDERS_LISTED_MAX = 1_000
export const OPEN_ORDERS_SNAPSHOT_MAX = 500

/** Number of events after which a market thread commits, even if more commands wait. */
export const COMMIT_EVENTS_MAX = 8_192

/** Maximum number of markets in one message of a market thread. */
export const MARKETS_PER_MESSAGE_MAX = 1_000

/** Maximum number of orders in one relayed cancellation. A separate operation cancels all orders of a trader. */
export const RELAYED_CANCELLATIONS_MAX = 20

/**
 * Maximum number of resting orders that one incoming order may match; then the remainder of the incoming order is
 * cancelled.
 */
export const MAKERS_PER_ORDER_MAX = 10_000

/** Maximum number of makers in one `OrdersMatched` event. A match with more makers is recorded as several events. */
export const MAKERS_PER_EVENT_MAX = 1_000

/** Maximum number of trades in an answer of `GET /api/v1/trades/{marketId}`. */
export const TRADES_LISTED_MAX = 100

/** Maximum number of trades in an answer of `GET /api/v1/activity/{marketId}`. */
export const ACTIVITY_LISTED_MAX = 50

/** Number of entries in an answer of `GET /api/v1/users/{address}/activity`: maximum and default. */
export const USER_ACTIVITY_LISTED_MAX = 100
export const USER_ACTIVITY_LISTED = 50

/** Maximum number of holders in an answer of `GET /api/v1/holders/{marketId}`. */
export const HOLDERS_LISTED_MAX = 10

/** Maximum number of positions on a page of `GET /api/v1/users/{address}/positions`. */
export const POSITIONS_LISTED_MAX = 1_000

/**
 * Maximum number of stored positions that were read directly from the chain, because the indexer was behind. There is a
 * maximum per user and chain, per market, and per chain. Above a maximum, the oldest positions are deleted.
 */
export const POSITION_SYNCS_PER_HOLDER_MAX = 100
export const POSITION_SYNCS_PER_MARKET_MAX = 1_000
export const POSITION_SYNCS_MAX = 10_000

/** Maximum number of candles in an answer of `GET /api/v1/candles/{marketId}`. */
export const CANDLES_LISTED_MAX = 300

/** Maximum number of answers in a front's short-lived cache, and maximum total size of these answers in bytes. */
export const READS_KEPT_MAX = 10_000
export const READS_KEPT_BYTES_MAX = 64 * 1024 * 1024

/**
 * Maximum total size in bytes of the answers about markets that one front caches. An answer is cached until its market
 * changes.
 */
export const ANSWERS_KEPT_BYTES_MAX = 64 * 1024 * 1024

/**
 * Limits of a front's short-lived cache of answers about ended or unknown markets: maximum number of answers, and
 * maximum total size in bytes.
 */
export const OVER_KEPT_MAX = 2_000
export const OVER_KEPT_BYTES_MAX = 32 * 1024 * 1024

/** Maximum number of orders that one database transaction marks as ended after their market has closed. */
export const ORDERS_ENDED_MAX = 250

/** Maximum number of rows in one database transaction of the projector. */
export const PROJECTION_ROWS_MAX = 2_000

/** Maximum number of events that one step adds to the public log. */
export const PUBLIC_LOG_EVENTS_PER_TURN = 8_192

/**
 * Maximum number of orders in one `GET /api/v1/transparency/signatures`. The URL contains their hashes, and must fit
 * into the limit on a request's headers.
 */
export const SIGNATURES_LISTED_MAX = 40

/**
 * Time after a permit's deadline, in seconds, for which the public log still hides the permit. The timestamp of a block
 * can be behind the exchange's clock, so the chain may accept the permit until then.
 */
export const PERMIT_HIDDEN_SEC = 600

/** Maximum number of entries of the public log that are searched for one event, starting at the time of the event. */
export const PUBLIC_ENTRIES_SEARCHED_MAX = 256

/**
 * Limits of one archive file of the public log. At most `ARCHIVE_SEGMENTS_MAX` log segments are read for it. It ends
 * when its uncompressed lines reach `ARCHIVE_BYTES_MAX` bytes.
 */
export const ARCHIVE_SEGMENTS_MAX = 4
export const ARCHIVE_BYTES_MAX = 4 * 1024 * 1024
/**
 * Maximum number of entries (leaves) of the public log after the newest stored books. A request for a past book or an
 * archive file may have to read all of these entries. If there are more, the stored books are too far behind, and the
 * request is rejected.
 */
export const HISTORY_TAIL_LEAVES_MAX = 8_192
/**
 * Maximum number of waiting requests of an IPv6 /48, as a multiple of the maximum of one IPv4 address or IPv6 /64. A
 * /48 has its own maximum, because one customer of an internet provider may own all /64 ranges in it.
 */
export const WAITING_SITE_TIMES = 4

/**
 * Limits of requests for past books and archive files. `HISTORY_WAITING_MAX`: maximum number of requests that wait for
 * the front's history thread. `HISTORY_PER_ADDRESS_MAX`: maximum number of unanswered requests per IPv4 address or IPv6
 * /64.
 */
export const HISTORY_WAITING_MAX = 32
export const HISTORY_PER_ADDRESS_MAX = 4

/**
 * Maximum number of orders in one task for the verify pool. If more orders arrive together, they are split
 * into several tasks.
 */
export const VERIFY_BATCH_MAX = 32

/**
 * Maximum number of orders of one front thread whose signatures wait for the verify pool or are being verified there.
 */
export const VERIFY_HELD_MAX = 4_096

/** Maximum number of markets whose texts are cached, for each thread that reads the database. */
export const MARKET_TEXTS_MAX = 16_384

/** Maximum number of addresses whose checksummed form is cached. */
export const CHECKSUM_ADDRESSES_MAX = 32_768

/** Maximum number of active API keys per wallet address; registering one more revokes the oldest key. */
export const API_KEYS_PER_ADDRESS_MAX = 20

/** Time in seconds for which a bearer token is valid, counted from its `ts`. */
export const TOKEN_LIFE_SEC = 300

/** Maximum number of registrations and revocations of API keys that wait for the database. */
export const API_KEY_WRITES_WAITING_MAX = 256

/** Maximum time in seconds by which a token's `ts` may be ahead of the server's clock. */
export const TOKEN_AHEAD_SEC_MAX = 60

/** Maximum number of characters of an API key's name. */
export const API_KEY_NAME_CHARS_MAX = 100

/** Maximum number of writes of other threads that wait for the database; further writes are rejected. */
export const WRITES_WAITING_MAX = 4_096

/** Maximum number of writes that share one commit of the database. */
export const WRITES_TOGETHER_MAX = 64

/** Maximum number of prices in `GET /api/v1/quick-markets/{asset}/price-history`, one per second. */
export const PRICE_HISTORY_SEC = 20 * 60

/** Maximum number of quick markets in an answer of `GET /api/v1/quick-markets/{asset}/history`. */
export const QUICK_MARKETS_LISTED_MAX = 100

/**
 * Maximum number of unfinished quick markets, which wait for a price or for the chain. At this number, no further quick
 * market opens. After a restart, only this many are resumed, the oldest first.
 */
export const QUICK_MARKETS_UNFINISHED_MAX = 10_000

/** Maximum number of prices that wait for the database. If there are more, the oldest prices are dropped. */
export const PRICES_WAITING_MAX = 10_000

/** Maximum number of operations per chain that the relayer has accepted and not finished. */
export const RELAYS_UNDERWAY_MAX = 1_000
/** While at least this many operations of a chain are in progress, the relayer accepts only redemptions. */
export const RELAYS_UNREDEEMING_MAX = 750
/**
 * Maximum number of queued operations of the relayer that name the same owner. They are not verified yet, so a client
 * may have named any account as the owner.
 */
export const RELAYS_IN_LINE_MAX = 16

/** Maximum number of trade ids that one rejection lists. The trader may have more unsettled trades. */
export const TRADES_NAMED_MAX = 100

/**
 * Maximum number of traders with a hold in one market thread at the same time. Because of a hold, the thread rejects a
 * trader's new orders while the relayer revokes an approval or allowance. At this number, a further hold is refused.
 */
export const TRADERS_HELD_MAX = 10_000

/**
 * Maximum number of a trader's open orders whose cost a market thread adds up for the relayer. If the trader has at
 * least this many open orders, the thread reports the cost of the buys as unknown.
 */
export const ORDERS_WEIGHED_MAX = 1_000

/** Maximum number of requests that wait for the same relayed operation. */
export const RELAY_TICKETS_MAX = 32

/** Maximum number of owners whose request rate and gas budget the relayer keeps in memory. */
export const RELAY_OWNERS_KNOWN_MAX = 50_000

/** Maximum number of claims in an answer of `GET /api/v1/pending-claims` and `/failed-claims`. */
export const CLAIMS_LISTED_MAX = 1_000

/**
 * Maximum number of resolutions in progress at the same time, and maximum number of rows per query for due resolutions.
 */
export const RESOLUTIONS_UNDERWAY_MAX = 32
export const RESOLUTIONS_READ_MAX = 1_000

/** Maximum number of trades in settlement's memory; further trades wait in the database. */
export const SETTLEMENT_HELD_MAX = 10_000

/**
 * Maximum number of recently ended trades that settlement remembers. If the database still returns such a trade as
 * pending, settlement ignores it.
 */
export const SETTLEMENT_ENDED_MAX = 100_000

/** Maximum number of unanswered reports about trades that settlement has sent to markets. */
export const SETTLEMENT_REPORTS_MAX = 512

/**
 * Maximum number of orders with a used permit that settlement remembers. At this number, settlement forgets all of
 * these orders.
 */
export const SETTLEMENT_PERMITS_MAX = 10_000

/**
 * Maximum number of a trader's unused permits, with consecutive nonces, that can cover orders at the same time. At this
 * number, an order with a further permit is rejected.
 */
export const PERMITS_AHEAD_MAX = 32

/** Number of trades in an answer of `GET /api/v1/pending-trades` and `/api/v1/failed-trades`: maximum and default. */
export const TRADES_OF_ALL_LISTED_MAX = 1_000
export const TRADES_OF_ALL_LISTED = 100

/**
 * Maximum time in seconds that a read with `minSeq` waits until its front has the market's events up to this sequence
 * number. A front is usually a few milliseconds behind the market.
 */
export const SEQ_WAIT_SEC_MAX = 2

/** Maximum age of a failure in a list of failed trades, in hours. */
export const FAILED_TRADES_LISTED_HOURS = 24

/** Maximum number of chain events in one database transaction; a range of blocks with more is read in parts. */
export const CHAIN_EVENTS_PER_RANGE_MAX = 10_000

/**
 * Maximum number of blocks in a range for which the indexer reads every header. The headers show whether the Ethereum
 * node left out logs. Ranges near the head are always this short, because the Ethereum node may not have the logs of
 * its newest blocks yet.
 */
export const CHAIN_HEADERS_PER_RANGE_MAX = 32

/**
 * Maximum number of chain events in the list of events that could not be decoded or stored. The list contains only the
 * newest of these events.
 */
export const CHAIN_SET_ASIDE_MAX = 1_000

/**
 * Maximum number of characters of a market's question and of its description, and of the names of a quick
 * market's asset and source.
 */
export const MARKET_TEXT_CHARS_MAX = 65_536
export const MARKET_NAME_CHARS_MAX = 64

/**
 * Maximum number of blocks whose hashes the indexer keeps. It keeps the newest indexed blocks. If a reorg replaces all
 * of these blocks, the chain counts as a different chain.
 */
export const CHAIN_MARKS_MAX = 1_024

/**
 * Maximum number of markets to open, and maximum number of markets to close, that the indexer gets from one comparison
 * of the chain with the markets' logs.
 */
export const MARKETS_RECONCILED_MAX = 1_000

/** Maximum number of bytes of an event's metadata, and maximum numbers of its tags and of its markets. */
export const EVENT_BYTES_MAX = 8_192
export const EVENT_TAGS_MAX = 8
export const EVENT_MARKETS_MAX = 100

/**
 * Number of events on a page of `GET /api/v1/events`: maximum and default. `EVENT_MARKETS_LISTED`: maximum
 * number of markets that the page shows of each event.
 */
export const EVENTS_LISTED_MAX = 50
export const EVENTS_LISTED = 20
export const EVENT_MARKETS_LISTED = 5

/** Maximum number of events that one page of a filtered list scans. The next page continues after these events. */
export const EVENTS_SCANNED_MAX = 1_000

/**
 * `MARKET_EVENTS_KEPT_MAX`: maximum number of markets whose event a front caches. `EVENT_VOLUMES_WAITING_MAX`: maximum
 * number of markets whose new trades are not yet in the volume of their event.
 */
export const MARKET_EVENTS_KEPT_MAX = 100_000
export const EVENT_VOLUMES_WAITING_MAX = 100_000

/** Maximum number of markets on a page of `GET /api/v1/markets`. */
export const MARKETS_LISTED_MAX = 1_000

/** Maximum number of markets in one message of the `ticker` channel, and in one subscription. */
export const TICKERS_PER_MESSAGE_MAX = 500
export const TICKERS_NAMED_MAX = 200

/** Maximum number of markets whose figures for lists and tickers a front remembers. */
export const FIGURES_KEPT_MAX = 100_000

/** Maximum number of characters of a search for markets. */
export const SEARCH_CHARS_MAX = 200

/**
 * Maximum number of traders per chain for whom the settlement costs of the current day are remembered. If there are
 * more, the traders who were charged longest ago are dropped.
 */
export const SPENDING_TRADERS_MAX = 100_000

/**
 * Maximum number of traders per chain whose pauses after failed trades are remembered. If there are more, the traders
 * whose last faults are oldest are dropped.
 */
export const PAUSED_TRADERS_MAX = 50_000

/**
 * Maximum number of unsettled trades per chain in a market thread. At this number, the chain's markets accept
 * only cancels.
 */
export const PENDING_TRADES_MAX = 1_000_000

/**
 * Maximum number of price levels per side of a book in the stream, which shows the best levels. REST lists all levels.
 */
export const BOOK_LEVELS_SHOWN_MAX = 1_000

/**
 * Maximum total size in bytes of the snapshots that a front's stream caches. Each snapshot is cached until
 * its next change.
 */
export const SNAPSHOTS_KEPT_BYTES_MAX = 32 * 1024 * 1024

/**
 * Maximum number of unread bytes of long answers per IP range (an IPv4 address or IPv6 /64), at one front thread. Bytes
 * count until the client has read them. Above it, the front refuses further long answers to the range.
 */
export const UNREAD_BYTES_PER_ADDRESS_MAX = 64 * 1024 * 1024

/**
 * Maximum number of unread bytes of long answers to all clients of one front thread. Above it, only IP ranges with few
 * unread bytes get further long answers.
 */
export const UNREAD_BYTES_MAX = 512 * 1024 * 1024

/** Maximum number of bytes of all requests and frames that wait to be handled at a front. */
export const WAITING_BYTES_MAX = 16 * 1024 * 1024

/** Maximum number of markets in the list of a delegation; the contract refuses more. */
export const DELEGATE_MARKETS_MAX = 32

/** Maximum number of delegates of an account that a front knows and lists. */
export const DELEGATES_PER_ACCOUNT_MAX = 100

/** Maximum number of open orders of a delegate whose open notional (the sum of price × open size) is limited. */
export const DELEGATED_ORDERS_MAX = 1_000

/**
 * Maximum number of a delegate's orders that one database write reads, if the delegate's open notional is limited.
 * These are open orders, filled orders whose quantity a failed trade may still return, and ended orders. If the write
 * reads this many orders, the new order is refused.
 */
export const DELEGATED_READ_MAX = 5_000

/**
 * Rate limit of signature queries to contract accounts: queries per second, and burst. Each client has this limit. Each
 * queried account has two further limits. Clients with an API key of the account share a limit of this size. All other
 * clients share a limit that is `CONTRACT_SIGNATURES_STRANGERS_TIMES` times as high, so that no single client can use
 * it up.
 */
export const CONTRACT_SIGNATURES_PER_SECOND = 10
export const CONTRACT_SIGNATURES_BURST = 40
export const CONTRACT_SIGNATURES_STRANGERS_TIMES = 4

/**
 * Limits of one front for signature queries to contract accounts: the maximum number that run at the same time, and the
 * maximum number that wait. If both maxima are reached, the front rejects further orders that need such a query.
 */
export const CONTRACT_SIGNATURES_AT_ONCE_MAX = 16
export const CONTRACT_SIGNATURES_WAITING_MAX = 200

/** Maximum number of answers to signature queries that a front caches. An answer is valid only until the next block. */
export const CONTRACT_SIGNATURES_KEPT_MAX = 10_000
