/** Who holds most of the market, and what the account has done in it. */

import { effect, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Holders, UserActivity } from '#client/read-answers.ts'
import { ago, cents, decimal, money, NOTHING, shares, shortAddress } from '../format.ts'
import { account } from '../state/account.ts'
import { nowSec } from '../state/clock.ts'
import { chain, reader } from '../state/exchange.ts'
import type { MarketModel } from './market-model.ts'
import { TradeStatus } from './tape.tsx'
import { TransactionLink } from './transaction-link.tsx'

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
        // Read again soon.
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
      {found === undefined ? (
        <p class="empty">Loading …</p>
      ) : found.topHolders.length === 0 ? (
        <p class="empty">There are no shares of this market yet.</p>
      ) : (
        <div class="scroll">
          <table class="table">
            <thead>
              <tr>
                <th scope="col">Address</th>
                <th scope="col" class="number">
                  YES
                </th>
                <th scope="col" class="number">
                  NO
                </th>
              </tr>
            </thead>
            <tbody>
              {found.topHolders.map((one) => (
                <tr key={one.address}>
                  <td class="num" title={one.address}>
                    {shortAddress(one.address)}{' '}
                    {isOwn(one.address) ? <span class="badge">you</span> : null}
                  </td>
                  <td class="num number">{decimal(one.yesShares, 0)}</td>
                  <td class="num number">{decimal(one.noShares, 0)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

function isOwn(address: string): boolean {
  return account.value?.address.toLowerCase() === address.toLowerCase()
}

/** How many are looked through for those of this market. */
const LISTED = 100

/** Read again when the position changes, which is when something has come about. */
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
  const { activity: trades = [], settlements: payouts = [] } = found.value ?? {}
  return (
    <section class="panel" aria-labelledby="activity-title">
      <div class="panel-head">
        <h2 id="activity-title">Your activity</h2>
      </div>
      {trades.length + payouts.length === 0 ? (
        <p class="empty">You have not traded here yet.</p>
      ) : (
        <div class="scroll activity-rows">
          <table class="table">
            <thead>
              <tr>
                <th scope="col">What</th>
                <th scope="col" class="number">
                  Shares
                </th>
                <th scope="col" class="number">
                  Price
                </th>
                <th scope="col" class="number">
                  Money
                </th>
                <th scope="col">Chain</th>
                <th scope="col" class="number">
                  When
                </th>
              </tr>
            </thead>
            <tbody>
              {payouts.map((one) => (
                <tr key={one.txHash}>
                  <td>Redeemed {one.winningOutcome === 0 ? 'YES' : 'NO'}</td>
                  <td />
                  <td />
                  <td class="num number up">{money(one.payout)}</td>
                  <td>
                    <TransactionLink txHash={one.txHash}>
                      <span class="badge">{one.status}</span>
                    </TransactionLink>
                  </td>
                  <td class="num number quiet">{ago(nowSec.value - one.timestamp)}</td>
                </tr>
              ))}
              {trades.map((one) => (
                <tr key={one.tradeId}>
                  <td class={one.role === 'buyer' ? 'up' : 'down'}>
                    {one.role === 'buyer' ? 'Bought' : 'Sold'} {one.outcome === 0 ? 'YES' : 'NO'}
                  </td>
                  <td class="num number">{shares(one.size)}</td>
                  <td class="num number">{cents(one.price)}</td>
                  <td class="num number">{money(one.cost)}</td>
                  <td>
                    <TradeStatus status={one.status} txHash={one.txHash} />
                  </td>
                  <td class="num number quiet">{ago(nowSec.value - one.timestamp)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
