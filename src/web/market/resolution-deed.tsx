/** Actions that the account can take in the resolution of a market: propose, dispute, settle or redeem. */

import { type Signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Client } from '#client/client.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { ConfirmButton } from '../confirm-button.tsx'
import { money } from '../format.ts'
import { account, client, trading } from '../state/account.ts'
import { chain } from '../state/exchange.ts'
import { funds, refreshFunds } from '../state/funds.ts'
import { showError, showToast } from '../state/toasts.ts'
import { disputeProposal } from '../state/transactions.ts'
import type { MarketModel } from './market-model.ts'
import type { DeedName } from './resolution-steps.ts'

type Props = { readonly model: MarketModel; readonly market: Market }

type Doing = {
  readonly busy: Signal<boolean>
  run(work: (client: Client) => Promise<unknown>, words: string): void
}

export function ResolutionDeed({ model, market, deed }: Props & { readonly deed: DeedName }) {
  const busy = useSignal(false)
  if (deed === undefined) return null
  if (account.value === undefined) return <p class="quiet">Connect an account to take part.</p>

  const work = async (todo: (client: Client) => Promise<unknown>, words: string) => {
    busy.value = true
    try {
      await todo(await trading())
      showToast('done', words)
    } catch (error) {
      showError(error)
    } finally {
      busy.value = false
      model.refresh()
      void refreshFunds()
    }
  }
  const props = { model, market, doing: { busy, run: (...args) => void work(...args) } as Doing }
  switch (deed) {
    case 'propose':
      return <Propose {...props} />
    case 'dispute':
      return <Dispute {...props} />
    case 'settle':
      return <Settle {...props} />
    case 'redeem':
      return <Redeem {...props} />
  }
}

type DeedProps = Props & { readonly doing: Doing }

/** Returns the bond that the oracle requires for a proposal about this market; undefined until it is read. */
function useBond({ contractAddress }: Market): bigint | undefined {
  const bond = useSignal<bigint | undefined>(undefined)
  const address = account.value?.address
  useEffect(() => {
    if (address === undefined) return
    client.value.relayer.nonces({ owner: address, market: contractAddress }).then(
      (known) => {
        if (known.bond !== undefined) bond.value = BigInt(known.bond)
      },
      () => undefined,
    )
  }, [address, contractAddress, bond])
  return bond.value
}

function Propose({ market, doing }: DeedProps) {
  const bond = useBond(market)
  const isOwn = chain.value?.role === 'main'
  const propose = (outcome: 'YES' | 'NO') => () =>
    doing.run((by) => by.resolution.propose({ market, outcome }), `${outcome} is proposed.`)
  return (
    <>
      <p>
        {bond === undefined
          ? 'Reading the bond …'
          : isOwn
            ? `You post a bond of ${money(bond)}. You get the bond back if the proposal is accepted, and lose it if a ` +
              'dispute proves the proposal wrong.'
            : `On this test chain the exchange posts the bond of ${money(bond)}. The bond is lost if a dispute proves the ` +
              'proposal wrong.'}
      </p>
      <div class="row">
        {(['YES', 'NO'] as const).map((outcome) => (
          <button
            key={outcome}
            type="button"
            disabled={doing.busy.value || bond === undefined}
            onClick={propose(outcome)}
          >
            Propose {outcome}
          </button>
        ))}
        <span class="quiet">Costs no gas.</span>
      </div>
    </>
  )
}

/**
 * Lets the account dispute a proposal within the dispute window. The account sends the transaction itself, because the
 * oracle takes the bond from the transaction's sender.
 */
function Dispute({ model, doing }: DeedProps) {
  const assertion = model.resolution.value?.assertion
  if (assertion === undefined) return null
  const outcome = assertion.proposedOutcome ? 'YES' : 'NO'
  const bond = BigInt(assertion.bondAmount)
  const has = funds.value?.stablecoin ?? bond
  return (
    <>
      <ConfirmButton
        name={`Dispute ${outcome}`}
        confirm={`Post ${money(bond)} and dispute`}
        keep="Not now"
        isDisabled={doing.busy.value || has < bond}
        onConfirm={() =>
          doing.run(() => disputeProposal(assertion.id, bond), `${outcome} is disputed.`)
        }
      >
        <p>
          You post a bond of {money(bond)} at the oracle and pay the gas. Its voters decide: if{' '}
          {outcome} is wrong you get the bond back and a part of the proposer’s, otherwise you lose
          it.
        </p>
      </ConfirmButton>
      {has < bond ? (
        <p class="quiet">A dispute takes a bond of {money(bond)}, which you do not have.</p>
      ) : null}
    </>
  )
}

function Settle({ model, market, doing }: DeedProps) {
  const isYes = model.resolution.value?.assertion?.proposedOutcome === true
  const winningOutcome = isYes ? 'YES' : 'NO'
  return (
    <button
      type="button"
      class="main"
      disabled={doing.busy.value}
      onClick={() =>
        doing.run(
          (by) => by.resolution.settle({ market, winningOutcome }),
          'The market is being settled.',
        )
      }
    >
      Settle as {winningOutcome}
    </button>
  )
}

function Redeem({ model, market, doing }: DeedProps) {
  const winner = model.resolution.value?.winningOutcome
  const held = model.position.value
  const won = (winner === 0 ? held?.yesShares : held?.noShares) ?? 0
  return (
    <button
      type="button"
      class="main"
      disabled={doing.busy.value || won === 0}
      onClick={() =>
        doing.run(
          (by) => by.relayer.ctfRedemption({ market }),
          'Redeemed. The money is on its way to your account.',
        )
      }
    >
      {won === 0 ? 'Your shares pay nothing' : `Redeem ${money(won)}`}
    </button>
  )
}
