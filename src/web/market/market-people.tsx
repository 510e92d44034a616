/** The largest holders of the market, and the account's activity in it. */

import { effect, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Holders, UserActivity } from '#protocol/shapes/users.ts'
import { decimal, money, NOTHING, shortAddress } from '../format.ts'
import { ActivityTable } from '../portfolio/activity-table.tsx'
import { account } from '../state/account.ts'
import { chain, reader } from '../state/exchange.ts'
import { type Column, Table } from '../table.tsx'
import type { MarketModel } from './market-model.ts'

const HOLDERS_MS = 20_000

export function HoldersPanel({ model }: { readonly model: MarketModel }) {
  const holders = useSignal<Holders | undefined>(undefined)
  const interest = useSignal<number | undefined>(undefined)
  useEffect(() => {
    const read = async () => {
      if (document.hidden) return
      try {
        const [found, open] = await Promise.all([
          reader.holders(model.marketId),
          reader.stats(model.marketId),
        ])
        holders.value = found
        interest.value = open.openInterest
      } catch {
        // A failed read is ignored, because the holders are read again after `HOLDERS_MS`.
      }
    }
    void read()
    const timer = setInterval(() => void read(), HOLDERS_MS)
    return () => clearInterval(timer)
  }, [model])
  const found = holders.value
  return (
    <section class="panel" aria-labelledby="holders-title">
      <div class="panel-head">
        <h2 id="holders-title">Holders</h2>
        <span class="badge num">{found?.totalHolders ?? 0}</span>
        <span class="space" />
        <span class="quiet num">
          Open interest {interest.value === undefined ? NOTHING : money(interest.value, 0)}
        </span>
      </div>
      <Table
        caption="Holders"
        rows={found?.topHolders}
        columns={HOLDER_COLUMNS}
        keyOf={({ address }) => address}
        empty="No user has shares of this market yet."
      />
    </section>
  )
}

const HOLDER_COLUMNS: readonly Column<Holders['topHolders'][number]>[] = [
  {
    name: 'Address',
    class: 'num',
    cell: ({ address }) => (
      <span title={address}>
        {shortAddress(address)} {isOwn(address) ? <span class="badge">you</span> : null}
      </span>
    ),
  },
  { name: 'YES', isNumber: true, cell: ({ yesShares }) => decimal(yesShares, 0) },
  { name: 'NO', isNumber: true, cell: ({ noShares }) => decimal(noShares, 0) },
]

function isOwn(address: string): boolean {
  return account.value?.address.toLowerCase() === address.toLowerCase()
}

/** Number of the account's latest activities to read. Only those in this market are shown. */
const LISTED = 100

/** The account's activity in the market. It is read again whenever the position changes. */
export function OwnActivity({ model }: { readonly model: MarketModel }) {
  const found = useSignal<UserActivity | undefined>(undefined)
  useEffect(
    () =>
      effect(() => {
        const address = account.value?.address
        const chainId = chain.value?.chainId
        void model.position.value
        if (address === undefined || chainId === undefined) return
        reader.activity({ address, chainId, limit: LISTED }).then(
          ({ activity, settlements }) => {
            const isHere = ({ marketId }: { marketId: string }) => marketId === model.marketId
            found.value = {
              activity: activity.filter(isHere),
              settlements: settlements.filter(isHere),
            }
          },
          () => undefined,
        )
      }),
    [model],
  )
  if (account.value === undefined) return null
  return (
    <section class="panel activity-rows" aria-labelledby="activity-title">
      <div class="panel-head">
        <h2 id="activity-title">Your activity</h2>
      </div>
      <ActivityTable
        activity={found.value}
        hasMarket={false}
        empty="You have not traded here yet."
      />
    </section>
  )
}
