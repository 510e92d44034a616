/** Amounts of the chain that older versions kept as integers are the same amounts as text. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { MikroORM } from '@mikro-orm/core'
import { Migrator } from '@mikro-orm/migrations'
import type { Address, MarketId } from '#domain/ids.ts'
import { auditPositions } from '#store/audit/audit-positions.ts'
import { closeDatabase, openDatabase, ormOptions, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/engine/migrate.ts'
import { mysqlMigrations } from '#store/migrations/mysql.ts'
import { sqliteMigrations } from '#store/migrations/sqlite.ts'
import { assertionsOfMarket, chainMarketById, tokenBalancesOf } from '#store/reads/chain-markets.ts'
import {
  holdersOf,
  openInterestOf,
  openInterestOfChain,
  realisedProfitOf,
} from '#store/reads/positions.ts'
import { onBothDatabases } from '../../support/databases.ts'

const LARGEST = 2n ** 63n - 1n

await onBothDatabases('a database of before', ({ fresh, dialect }) => {
  it('keeps every amount, and its open interest is that of markets', async () => {
    const database = await openDatabase(await fresh())
    try {
      const list = dialect === 'sqlite' ? sqliteMigrations : mysqlMigrations
      const orm = new MikroORM({
        ...(await ormOptions(database.address, { connectionsMax: 1 })),
        extensions: [Migrator],
        migrations: {
          tableName: 'migrations',
          migrationsList: list.slice(0, 7),
          snapshot: false,
          disableForeignKeys: false,
        },
      })
      await new Migrator(orm.em).up()
      await orm.close(true)

      const word = (digit: string) => `x'${digit.repeat(64)}'`
      const someone = (digit: string) => `x'${digit.repeat(40)}'`
      const at = `1, 2, 3`
      for (const statement of [
        `insert into chain_markets (market_id, chain_id, contract_address, maker, question, description,
          searched, category, expires_at_sec, created_at_sec, quick, asset, start_sec, start_price_e8,
          price_source, created_block, created_log_index, created_tx, resolved, withdrawn, listed)
          values (${word('a')}, 1, ${someone('a')}, ${someone('b')}, 'q', 'd', 'q', 'general', 9, 8, 1,
            'BTC', 7, 6500000000000, 'pyth', 1, 0, ${word('c')}, 0, 0, 1)`,
        `insert into chain_outcomes values (1, ${word('1')}, ${word('a')}, 0)`,
        `insert into chain_outcomes values (1, ${word('2')}, ${word('a')}, 1)`,
        `insert into chain_assertions (chain_id, assertion_id, market_id, proposer, asserter,
          proposed_outcome, bond_e6, asserted_at_sec, window_ends_at_sec, proposed_block,
          proposed_log_index, proposed_tx) values (1, ${word('d')}, ${word('a')}, ${someone('b')},
            ${someone('b')}, 1, ${LARGEST}, 1, 2, 3, 4, ${word('c')})`,
        ...['1', '2'].map(
          (token, part) => `insert into chain_token_moves values (${at}, ${part}, ${word(token)},
            ${someone('0')}, ${someone('b')}, ${LARGEST}, 'split', ${word('c')}, 5)`,
        ),
        ...['1', '2'].map(
          (token) => `insert into chain_token_balances
            values (1, ${word(token)}, ${someone('b')}, ${LARGEST}, 2)`,
        ),
        `insert into chain_conversions values (1, 2, 4, 'split', ${someone('b')}, ${word('a')},
          ${LARGEST}, '1,2', ${word('c')}, 5)`,
        `insert into chain_conversions values (1, 2, 6, 'redeem', ${someone('c')}, ${word('a')},
          ${LARGEST}, '1', ${word('c')}, 5)`,
        `insert into chain_cursors (chain_id, deployment, start_block, indexed_block, indexed_hash,
          updated_at_ms) values (1, 'here', 0, 2, ${word('c')}, 5)`,
        `insert into chain_trades values (1, 2, 5, ${word('e')}, 1, ${word('a')}, ${someone('b')},
          ${someone('c')}, ${word('e')}, ${word('e')}, 0, 1, ${LARGEST}, 77, 'none', '', ${word('f')}, 5)`,
        `insert into positions values (${word('a')}, ${someone('b')}, 1, ${LARGEST - 10n}, 9,
          ${LARGEST - 1n}, 3, 4)`,
        `insert into positions values (${word('a')}, ${someone('c')}, 1, 95, 0, 95, 3, 4)`,
        `insert into positions values (${word('a')}, ${someone('d')}, 1, 100, 0, 100, 3, 4)`,
        `insert into market_holdings values (${word('a')}, 1, 3, ${LARGEST})`,
        `insert into market_holdings values (${word('9')}, 1, 0, -500)`,
        `insert into chain_holdings values (1, 3, ${LARGEST - 500n})`,
      ]) {
        await sqlConnection(database).execute(statement)
      }

      assert.deepEqual(await migrate(database), [
        '008-withdrawn-epochs',
        '009-chain-amounts',
        '010-position-syncs',
        '011-pending-of-chain',
        '012-profits',
        '013-leases',
        '014-token-nonces',
        '015-contested-quick-markets',
        '016-withdrawers',
        '017-permits-of-orders',
      ])

      const marketId = `0x${'a'.repeat(64)}` as MarketId
      const holder = `0x${'b'.repeat(40)}` as Address
      const { top, total } = await holdersOf(database, { marketId, limit: 5 })
      assert.equal(total, 3)
      assert.deepEqual(
        top.map(({ yesShares, noShares, yesCost, noCost }) => [
          yesShares,
          noShares,
          yesCost,
          noCost,
        ]),
        [
          [LARGEST - 10n, 9n, 3n, 4n],
          [100n, 0n, 3n, 4n],
          [95n, 0n, 3n, 4n],
        ],
      )
      assert.equal((await chainMarketById(database, marketId))?.quickFacts?.startPrice, 65e11)
      assert.equal((await assertionsOfMarket(database, marketId))[0]?.bond, String(LARGEST))
      assert.deepEqual(
        (await tokenBalancesOf(database, holder, 1)).map(({ balance }) => balance),
        [String(LARGEST), String(LARGEST)],
      )
      const [trade] = await sqlConnection(database).execute<{ size_e6: string; cost_e6: string }[]>(
        'select size_e6, cost_e6 from chain_trades',
      )
      assert.deepEqual([trade?.size_e6, trade?.cost_e6], [String(LARGEST), '77'])
      assert.equal(await openInterestOf(database, { marketId }), LARGEST)
      assert.equal(await openInterestOfChain(database, { chainId: 1 }), LARGEST)
      // The positions above are not what the movements say: it is found, so the movements were read.
      const { differences } = await auditPositions(database)
      assert(differences.some(({ expected }) => expected.startsWith(`YES ${LARGEST} for`)))
      // What was redeemed before profits were kept is counted.
      const user = `0x${'c'.repeat(40)}` as Address
      assert.equal(await realisedProfitOf(database, { user, chainId: 1 }), LARGEST)
      assert.deepEqual(await migrate(database), [])
    } finally {
      await closeDatabase(database)
    }
  })
})
