/** Test money for an account with almost no money. A well-known account of the devnet sends it. */

import { computed, signal } from '@preact/signals'
import { UNIT } from '../format.ts'
import { transferCall } from '../wallet/chain-calls.ts'
import { account, faucetAddress, node } from './account.ts'
import { chain } from './exchange.ts'
import { funds, refreshFunds } from './funds.ts'
import { showError, showToast } from './toasts.ts'
import { sendFrom } from './transactions.ts'

export const FAUCET_DOLLARS = 10_000n * UNIT
/** One ether, for transactions that the account sends itself. */
const FAUCET_WEI = 10n ** 18n

/** True if the account has less than a dollar, and there is a faucet. */
export const needsFaucet = computed(
  () =>
    account.value !== undefined &&
    faucetAddress.value !== undefined &&
    (funds.value?.stablecoin ?? UNIT) < UNIT,
)

export const isPouring = signal(false)

export async function askFaucet(): Promise<void> {
  const [to, from] = [account.value?.address, faucetAddress.value]
  const [provider, contracts] = [node.value, chain.value?.contracts]
  if (to === undefined || from === undefined || isPouring.value) return
  if (provider === undefined || contracts === undefined) return
  isPouring.value = true
  try {
    await sendFrom(provider, from, { to, data: '0x', value: FAUCET_WEI })
    await sendFrom(provider, from, transferCall(contracts, to, FAUCET_DOLLARS))
    showToast('done', 'You received test dollars, and one ether for gas.')
  } catch (error) {
    showError(error)
  } finally {
    isPouring.value = false
    await refreshFunds()
  }
}
