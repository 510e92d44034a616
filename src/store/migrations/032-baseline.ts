/** The whole schema, declared once for both dialects. It replaces migrations 001 to 031; later migrations change it. */

import { Migration } from '@mikro-orm/migrations'
import { type Dialect, type Table, tableStatements } from './table-statements.ts'

const TABLES: Readonly<Record<string, Table>> = {
  // Markets, orders, trades and the projection's progress.
  markets: {
    columns: `market_id hash, chain_id bigint, question words, description words,
      category varchar(16), contract_address address, maker address, expires_at_sec bigint,
      created_at_sec bigint, quick bool, opened_at_ms bigint, close_reason varchar(16) null,
      closed_at_ms bigint null, log_partition smallint, last_seq bigint,
      matching varchar(16) null`,
    key: 'market_id',
    indexes: {
      markets_by_age: '(created_at_sec, market_id)',
      markets_by_kind: '(quick, created_at_sec, market_id)',
      markets_by_chain: '(chain_id, quick, created_at_sec, market_id)',
      markets_by_category: '(category, quick, created_at_sec, market_id)',
      markets_by_expiration: '(expires_at_sec)',
      markets_by_contract: '(contract_address)',
    },
  },
  orders: {
    columns: `order_hash hash, market_id hash, chain_id bigint, trader address, side tinyint,
      outcome tinyint, price_e6 int, size_e6 bigint, nonce varchar(20), expiration varchar(20),
      expires_at_sec bigint, maker_fee_recipient address, signature binary(65), permit text null,
      status varchar(16), remaining_e6 bigint, matches int, placed_at_ms bigint,
      updated_at_ms bigint, log_partition smallint, last_seq bigint`,
    key: 'order_hash',
    numbered: 'orders_by_hash',
    mysqlColumn: 'permit_owner binary(20) as (if(permit is null, null, trader)) virtual',
    indexes: {
      orders_of_trader: [
        "(trader, chain_id, market_id) where status = 'open'",
        '(trader, status, chain_id)',
      ],
      orders_of_market: ["(market_id) where status = 'open'", '(market_id, status)'],
      orders_with_permit: [
        '(trader, chain_id, placed_at_ms) where permit is not null',
        '(permit_owner, chain_id, placed_at_ms)',
      ],
    },
  },
  // Only orders with a label or a group have a row, so other orders need no space here.
  order_tags: {
    columns: 'order_hash hash, label varchar(32) null, order_group varchar(32) null',
    key: 'order_hash',
    numbered: 'order_tags_by_hash',
  },
  // If `kind` is null, the trade is ordinary. If `fault` is null, no side is at fault.
  trades: {
    columns: `market_id hash, seq bigint, fill_index int, chain_id bigint, outcome tinyint,
      price_e6 int, size_e6 bigint, cost_e6 bigint, buyer address, seller address,
      buy_order_hash hash, sell_order_hash hash, taker_side tinyint, matched_at_ms bigint,
      status varchar(16), pending bool, tx_hash hash null, reason words(1024) null, attempts int,
      failed_at_ms bigint null, updated_at_ms bigint, kind varchar(16) null, fault varchar(16) null`,
    key: 'market_id, seq, fill_index',
    numbered: 'trades_of_market',
    indexes: {
      trades_pending: [
        '(matched_at_ms, seq, fill_index) where pending = 1',
        '(pending, matched_at_ms, seq, fill_index)',
      ],
      trades_failed: [
        '(failed_at_ms, seq, fill_index) where failed_at_ms is not null',
        '(failed_at_ms, seq, fill_index)',
      ],
      trades_of_buyer: '(buyer, chain_id, matched_at_ms, seq, fill_index)',
      trades_of_seller: '(seller, chain_id, matched_at_ms, seq, fill_index)',
      trades_by_transaction: ['(tx_hash) where tx_hash is not null', '(tx_hash)'],
      trades_pending_of_chain: [
        '(chain_id, matched_at_ms, seq, fill_index) where pending = 1',
        '(chain_id, pending, matched_at_ms, seq, fill_index)',
      ],
    },
  },
  checkpoints: {
    columns: `log_partition smallint, log_id varchar(64), log_offset bigint`,
    key: 'log_partition',
  },
  api_keys: {
    columns: `key_id varchar(64), address char(42), name words(100), public_key char(64),
      created_at_ms bigint, expires_at_sec bigint null, revoked_at_ms bigint null`,
    key: 'key_id',
    indexes: {
      api_keys_active: [
        '(address, created_at_ms, key_id) where revoked_at_ms is null',
        '(address, revoked_at_ms, created_at_ms, key_id)',
      ],
    },
  },
  // A row is a dead man's switch: it cancels the orders of `address` at `due_at_ms`, unless the API key renews it
  // before. If the API key acts as a delegate for another account, `address` is that account, and `delegate` is the
  // key's own address.
  deadman_switches: {
    columns: `key_id varchar(64), address char(42), due_at_ms bigint, delegate char(42) null`,
    key: 'key_id',
    withoutRowid: true,
    indexes: { deadman_switches_due: '(due_at_ms)' },
  },
  delegated_orders: {
    columns: `order_hash hash, chain_id bigint, trader address, delegate address, price_e6 int,
      size_e6 bigint, expires_at_sec bigint, reserved_at_ms bigint, submissions int`,
    key: 'order_hash',
    indexes: {
      delegated_orders_of_delegate: '(chain_id, trader, delegate)',
      delegated_orders_by_end: '(expires_at_sec)',
    },
  },
  // Facts about unsettled trades that settlement must still know after it was killed and restarted.
  settlement_notes: {
    columns: `market_id hash, seq bigint, fill_index int, chain_id bigint, reachable_ms bigint,
      retries int, wasted_gas bigint, fault varchar(8) null, reason words(1024) null`,
    key: 'market_id, seq, fill_index',
    withoutRowid: true,
  },
  // Data that the indexer read from each chain. Each row names its block, so that the rows of removed blocks can be
  // undone after a reorg.
  chain_cursors: {
    columns: `chain_id bigint, deployment varchar(512), start_block bigint, indexed_block bigint,
      indexed_hash hash, updated_at_ms bigint`,
    key: 'chain_id',
  },
  chain_blocks: {
    columns: `chain_id bigint, block_number bigint, block_hash hash, at_sec bigint`,
    key: 'chain_id, block_number',
    withoutRowid: true,
  },
  chain_markets: {
    columns: `market_id hash, chain_id bigint, contract_address address, maker address,
      question words, description words, searched words, category varchar(24),
      expires_at_sec bigint, created_at_sec bigint, quick bool, asset words(64) null,
      start_sec bigint null, start_price_e8 amount null, price_source words(64) null,
      end_start_price_e8 amount null, end_price_e8 amount null, end_source words(64) null,
      created_block bigint, created_log_index bigint, created_tx hash, resolved bool,
      winning_outcome tinyint null, resolved_block bigint null, resolved_at_sec bigint null,
      resolved_tx hash null, payouts words(160) null, payouts_block bigint null,
      orphaned_block bigint null, withdrawn bool, listed bool, matching varchar(16) null`,
    key: 'market_id',
    indexes: {
      chain_markets_by_age: '(listed, quick, created_at_sec, market_id)',
      chain_markets_by_category: '(listed, category, quick, created_at_sec, market_id)',
      chain_markets_by_chain: '(chain_id, created_block)',
      chain_markets_by_contract: '(contract_address)',
      chain_markets_by_asset: [
        '(asset, chain_id, start_sec) where asset is not null',
        '(asset, chain_id, start_sec)',
      ],
      chain_markets_by_expiration: '(resolved, expires_at_sec)',
      chain_markets_unpaid: '(chain_id, resolved, payouts_block)',
    },
  },
  chain_outcomes: {
    columns: `chain_id bigint, position_id hash, market_id hash, outcome tinyint`,
    key: 'chain_id, position_id',
    withoutRowid: true,
    indexes: { chain_outcomes_of_market: '(market_id, outcome)' },
  },
  chain_assertions: {
    columns: `chain_id bigint, assertion_id hash, market_id hash, proposer address, asserter address,
      proposed_outcome tinyint, bond_e6 amount, asserted_at_sec bigint, window_ends_at_sec bigint,
      proposed_block bigint, proposed_log_index bigint, proposed_tx hash,
      disputed_block bigint null, disputed_at_sec bigint null, disputed_tx hash null,
      ended_as varchar(24) null, ended_block bigint null, ended_at_sec bigint null,
      ended_tx hash null`,
    key: 'chain_id, assertion_id',
    indexes: {
      chain_assertions_of_market: '(market_id, proposed_block, proposed_log_index)',
      chain_assertions_open: '(chain_id, ended_as, window_ends_at_sec)',
    },
  },
  chain_market_events: {
    columns: `chain_id bigint, block_number bigint, log_index bigint, market_id hash,
      event varchar(24), facts words, tx_hash hash, at_sec bigint`,
    key: 'chain_id, block_number, log_index',
    indexes: { chain_market_events_of: '(market_id, block_number, log_index)' },
  },
  chain_token_moves: {
    columns: `chain_id bigint, block_number bigint, log_index bigint, part bigint, position_id hash,
      sender address, receiver address, amount_e6 amount, kind varchar(24), tx_hash hash,
      at_sec bigint`,
    key: 'chain_id, block_number, log_index, part',
    indexes: {
      chain_token_moves_of: '(chain_id, position_id, block_number, log_index, part)',
      chain_token_moves_from: '(sender, chain_id, block_number, log_index, part)',
      chain_token_moves_to: '(receiver, chain_id, block_number, log_index, part)',
    },
  },
  chain_token_balances: {
    columns: `chain_id bigint, position_id hash, holder address, balance_e6 amount,
      block_number bigint`,
    key: 'chain_id, position_id, holder',
    withoutRowid: true,
    indexes: { chain_token_balances_of: '(holder, chain_id, position_id)' },
  },
  chain_conversions: {
    columns: `chain_id bigint, block_number bigint, log_index bigint, kind varchar(24),
      holder address, market_id hash, amount_e6 amount, index_sets words(64), tx_hash hash,
      at_sec bigint`,
    key: 'chain_id, block_number, log_index',
    indexes: {
      chain_conversions_of_holder: '(holder, chain_id, block_number, log_index)',
      chain_conversions_of_market: '(market_id, holder, block_number, log_index)',
      chain_conversions_by_transaction: '(tx_hash)',
    },
  },
  chain_trades: {
    columns: `chain_id bigint, block_number bigint, log_index bigint, trade_key hash, settled bool,
      market_id hash null, buyer address null, seller address null, buy_order_hash hash,
      sell_order_hash hash, outcome tinyint null, price_e6 bigint null, size_e6 amount null,
      cost_e6 amount null, fault varchar(24), reason words(64), tx_hash hash, at_sec bigint`,
    key: 'chain_id, block_number, log_index',
    indexes: {
      chain_trades_by_key: '(trade_key, block_number, log_index)',
      chain_trades_by_transaction: '(tx_hash)',
    },
  },
  chain_withdrawn_orders: {
    columns: `chain_id bigint, order_hash hash, trader address, effective_at_sec bigint,
      block_number bigint, log_index bigint, tx_hash hash, at_sec bigint`,
    key: 'chain_id, order_hash',
    indexes: {
      chain_withdrawn_orders_by_block: '(chain_id, block_number)',
      chain_withdrawn_orders_of_trader: '(chain_id, trader)',
    },
  },
  // For each account and delegate, only the newest row counts. `markets` is a list of hashes without 0x; an
  // empty list means all markets.
  chain_delegates: {
    columns: `chain_id bigint, account address, delegate address, until_sec bigint,
      settles_until_sec bigint, max_order_size_e6 bigint, max_open_notional_e6 bigint,
      markets text, block_number bigint, log_index bigint, tx_hash hash, at_sec bigint`,
    key: 'chain_id, block_number, log_index',
    indexes: { chain_delegates_of_account: '(chain_id, account, delegate)' },
  },
  // Each index for sorting ends with the event's key, so that reading one page of a sorted list touches only the rows
  // of that page.
  events: {
    columns: `chain_id bigint, event_hash hash, slug varchar(64), title words(200),
      description words, category varchar(24), tags varchar(300), image words(80),
      signer address, searched words, ends_at_sec bigint, exclusive bool, created_at_sec bigint,
      volume_e6 bigint, block_number bigint, log_index bigint, tx_hash hash`,
    key: 'chain_id, event_hash',
    unique: { events_by_slug: '(slug, chain_id)' },
    indexes: {
      events_by_volume: '(volume_e6, chain_id, event_hash)',
      events_by_age: '(created_at_sec, chain_id, event_hash)',
      events_by_end: '(ends_at_sec, chain_id, event_hash)',
      events_by_category: '(category, chain_id, event_hash)',
      events_by_block: '(chain_id, block_number)',
    },
  },
  event_markets: {
    columns: `market_id hash, chain_id bigint, event_hash hash, block_number bigint,
      log_index bigint, tx_hash hash`,
    key: 'market_id',
    withoutRowid: true,
    indexes: {
      event_markets_of: '(chain_id, event_hash, block_number, log_index)',
      event_markets_by_block: '(chain_id, block_number)',
    },
  },
  // Transactions of the exchange: one row per nonce, and every hash that was signed for it.
  transactions: {
    columns: `chain_id bigint, sender char(42), nonce bigint, revision bigint, purpose varchar(32),
      reference words, raw mediumtext, hashes mediumtext, blanks mediumtext,
      max_fee_per_gas varchar(78), max_priority_fee_per_gas varchar(78), state varchar(16),
      tx_hash char(66) null, block_number bigint null, block_hash char(66) null,
      gas_used bigint null, error words(1024), signed_at_ms bigint, updated_at_ms bigint,
      finished_at_ms bigint null`,
    key: 'chain_id, sender, nonce',
    withoutRowid: true,
    indexes: {
      transactions_open: [
        "(chain_id, sender, nonce) where state = 'open'",
        '(state, chain_id, sender, nonce)',
      ],
      transactions_by_block: [
        '(chain_id, sender, block_number) where block_number is not null',
        '(chain_id, sender, block_number)',
      ],
    },
  },
  transaction_hashes: {
    columns: `tx_hash char(66), chain_id bigint, sender char(42), nonce bigint`,
    key: 'tx_hash',
    withoutRowid: true,
  },
  relays: {
    columns: `relay_key hash, chain_id bigint, kind varchar(32), owner address, status varchar(16),
      unfinished tinyint, attempt int, tx_hash hash null, gas bigint, reason words(1024) null,
      opened_at_ms bigint, updated_at_ms bigint`,
    key: 'relay_key',
    indexes: {
      relays_unfinished: [
        '(chain_id, opened_at_ms) where unfinished = 1',
        '(chain_id, unfinished, opened_at_ms)',
      ],
      relays_by_owner: '(chain_id, owner, opened_at_ms, gas)',
      relays_by_time: '(chain_id, opened_at_ms, gas)',
    },
  },
  claims: {
    columns: `relay_key hash, item int, chain_id bigint, user_address address, market_id hash,
      market_address address, payout_e6 bigint, winning_outcome tinyint, status varchar(16),
      tx_hash hash null, reason words(1024) null, submitted_at_ms bigint, updated_at_ms bigint`,
    key: 'relay_key, item',
    indexes: {
      claims_by_status: '(status, submitted_at_ms, item)',
      claims_by_user: '(user_address, chain_id, submitted_at_ms, item)',
    },
  },
  asset_prices: {
    columns: `asset varchar(16), at_sec bigint, observed_at_ms bigint, price_e8 bigint,
      source varchar(16), price_number bigint`,
    key: 'asset, at_sec',
    withoutRowid: true,
  },
  price_marks: {
    columns: `boundary_at_sec bigint, asset varchar(16), source varchar(16), price_e8 bigint,
      observed_at_ms bigint, received_at_ms bigint, via varchar(16), exact tinyint, raw words`,
    key: 'boundary_at_sec, asset, source',
  },
  quick_markets: {
    columns: `quick_id serial, market_id hash, chain_id bigint, contract_address address,
      asset varchar(16), start_at_sec bigint, interval_sec int, start_price_e8 bigint,
      source varchar(16), strike words, created_at_ms bigint, end_price_e8 bigint null,
      outcome tinyint null, resolution words null, resolved_at_ms bigint null,
      create_tx_hash hash null, report_tx_hash hash null, chain_stage varchar(16),
      unfinished tinyint, contested words null, matching varchar(16) null`,
    unique: { quick_markets_once: '(chain_id, market_id)' },
    indexes: {
      quick_markets_by_asset: '(asset, start_at_sec, quick_id)',
      quick_markets_unfinished: ['(quick_id) where unfinished = 1', '(unfinished, quick_id)'],
    },
  },
  // Precomputed sums for reads. Amounts are split into whole units and millionths. Sums of a chain are stored per
  // partition, so that two partitions never wait for the same row.
  market_stats: {
    columns: `market_id hash, chain_id bigint, volume_whole bigint, volume_millionths bigint,
      trades bigint`,
    key: 'market_id',
    withoutRowid: true,
  },
  candles: {
    columns: `market_id hash, outcome tinyint, span_sec int, start_sec bigint, open_e6 int,
      high_e6 int, low_e6 int, close_e6 int, volume_whole bigint, volume_millionths bigint,
      trades bigint, first_seq bigint, first_fill int, last_seq bigint, last_fill int`,
    key: 'market_id, outcome, span_sec, start_sec',
    withoutRowid: true,
  },
  chain_stats: {
    columns: `chain_id bigint, log_partition smallint, volume_whole bigint, volume_millionths bigint,
      trades bigint, pending bigint, traders bigint, markets bigint, markets_closed bigint,
      markets_resolved bigint`,
    key: 'chain_id, log_partition',
    withoutRowid: true,
  },
  chain_spans: {
    columns: `chain_id bigint, log_partition smallint, span_sec int, start_sec bigint,
      volume_whole bigint, volume_millionths bigint, trades bigint`,
    key: 'chain_id, span_sec, start_sec, log_partition',
    withoutRowid: true,
  },
  traders: {
    columns: `chain_id bigint, address address`,
    key: 'chain_id, address',
    withoutRowid: true,
  },
  positions: {
    columns: `market_id hash, holder address, chain_id bigint, yes_shares_e6 amount,
      no_shares_e6 amount, total_shares_e6 amount, yes_cost_e6 amount, no_cost_e6 amount`,
    key: 'market_id, holder',
    withoutRowid: true,
    indexes: {
      positions_by_size: '(market_id, total_shares_e6, holder)',
      positions_of_holder: '(holder, chain_id, market_id)',
    },
  },
  market_holdings: {
    columns: `market_id hash, chain_id bigint, holders bigint, locked_e6 amount`,
    key: 'market_id',
    withoutRowid: true,
  },
  chain_holdings: {
    columns: `chain_id bigint, holders bigint, locked_e6 amount`,
    key: 'chain_id',
    withoutRowid: true,
  },
  chain_withdrawn_epochs: {
    columns: `chain_id bigint, trader address, before_nonce varchar(20), effective_at_sec bigint,
      block_number bigint, log_index bigint, tx_hash hash, at_sec bigint`,
    key: 'chain_id, block_number, log_index',
    indexes: { chain_withdrawn_epochs_of_trader: '(chain_id, trader)' },
  },
  chain_set_aside: {
    columns: `chain_id bigint, block_number bigint, log_index bigint, event varchar(64),
      why words(256), tx_hash hash, at_sec bigint`,
    key: 'chain_id, block_number, log_index',
    withoutRowid: true,
  },
  position_syncs: {
    columns: `market_id hash, holder address, chain_id bigint, block_number bigint, block_hash hash,
      yes_shares varchar(78), no_shares varchar(78), at_ms bigint`,
    key: 'market_id, holder',
    withoutRowid: true,
    indexes: {
      position_syncs_of_holder: '(holder, chain_id, market_id)',
      position_syncs_by_block: '(chain_id, block_number)',
    },
  },
  position_profits: {
    columns: `market_id hash, holder address, chain_id bigint, profit_e6 varchar(90)`,
    key: 'market_id, holder',
    withoutRowid: true,
  },
  holder_profits: {
    columns: `chain_id bigint, holder address, profit_e6 varchar(90)`,
    key: 'chain_id, holder',
    withoutRowid: true,
  },
  // The public log. `begins_at` is the offset of the first event in the log; `published_size` is the size of the signed checkpoint.
  public_trees: {
    columns: `log_partition smallint, log_id varchar(64), begins_at bigint, next_offset bigint,
      size bigint, root hash, published_size bigint, checkpoint words`,
    key: 'log_partition',
  },
  public_tiles: {
    columns: 'log_partition smallint, tile_level smallint, tile_index bigint, hashes blob',
    key: 'log_partition, tile_level, tile_index',
  },
  // `through_ms` is the time of the newest event up to this entry, so `through_ms` never falls from entry to entry.
  public_entries: {
    columns: `log_partition smallint, leaf bigint, first_offset bigint, through_ms bigint, entry blob`,
    key: 'log_partition, leaf',
    indexes: { public_entries_by_time: '(log_partition, through_ms, leaf)' },
  },
  // For each public log, the newest checkpoint that witnesses have cosigned.
  public_cosigned: {
    columns: 'log_partition smallint, size bigint, checkpoint words',
    key: 'log_partition',
  },
  // The books of a changed market at the end of a segment of the public log. The segment's leaves are `from_leaf` to
  // `to_leaf` - 1. `seq` and `through_ms` belong to the market's last event in the segment.
  public_books: {
    columns: `market_id hash, seq bigint, log_partition smallint, through_ms bigint, from_leaf bigint, to_leaf bigint,
      levels bytes`,
    key: 'market_id, seq',
    indexes: {
      public_books_by_time: '(market_id, through_ms, seq)',
      public_books_by_leaf: '(log_partition, to_leaf)',
    },
  },
  // These tables are used by a cluster of several nodes; they are empty on SQLite, where one process owns the file.
  leases: {
    columns: `role varchar(64), holder words(255), epoch bigint, expires_at datetime(3), writes bigint`,
    key: 'role',
    withoutRowid: true,
  },
  token_nonces: {
    columns: `key_id varchar(36), nonce binary(16), claim binary(8), until_sec bigint`,
    key: 'key_id, nonce',
    withoutRowid: true,
    indexes: { token_nonces_until: '(until_sec)' },
  },
}

export const baselineOf = (dialect: Dialect) =>
  class Baseline extends Migration {
    override up(): void {
      for (const [name, table] of Object.entries(TABLES)) {
        for (const statement of tableStatements(dialect, name, table)) this.addSql(statement)
      }
    }
  }
