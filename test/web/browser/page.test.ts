/**
 * The trading page and the documentation page in a real browser, on one exchange with a local chain. No story may cause
 * an error in the console or a violation of the content security policy.
 */

import { test } from 'node:test'
import { findBrowser, MISSING_BROWSER } from '../../support/browser.ts'
import { servicesRequired } from '../../support/required-services.ts'
import { docsExecute } from './docs-stories.ts'
import {
  listNamesTheWinner,
  proposalIsDisputed,
  quickMarketEnds,
  resolutionAndRedemption,
} from './ending-stories.ts'
import { eventWithItsMarkets, listInTheAddress, listIsReadOnce, shareLink } from './list-stories.ts'
import {
  accessible,
  chartBeforeTrades,
  keysAndExport,
  layout,
  loadReport,
  phone,
} from './look-stories.ts'
import { openStage } from './stage.ts'
import { marketOrder, shortSaleWarns, silentWallet, ticketUnderstands } from './ticket-stories.ts'
import {
  ladderOfManyOrders,
  orderIsProven,
  refusalSaysWhy,
  restartIsCaughtUp,
  tradeOfTwo,
  walletThatRefuses,
} from './trading-stories.ts'
import { freshWallet, mintOfTwo } from './wallet-stories.ts'

const skip = findBrowser() === undefined && !servicesRequired ? MISSING_BROWSER : false

test('the trading page works in a browser', { skip, concurrency: 2 }, async (t) => {
  const stage = await openStage(t)
  const stories = {
    'a demo trader buys from another': tradeOfTwo,
    'before the first trade the chart shows the mid price, in words too': chartBeforeTrades,
    'the ladder is the book of the API after hundreds of random orders': ladderOfManyOrders,
    'the URL has the filter of the list, and watched markets stay': listInTheAddress,
    'an event shows its markets and the gap of their prices': eventWithItsMarkets,
    'the list is read once, page by page, without ended markets': listIsReadOnce,
    'a shared link names its market and leads to it': shareLink,
    'a market order spends its amount within the slippage limit': marketOrder,
    'the ticket shows the parsed number, and asks if it is ambiguous': ticketUnderstands,
    'selling more than is held and cancelling all need confirmation': shortSaleWarns,
    'a wallet that never answers does not lock the ticket': silentWallet,
    'a fresh wallet gets test money, splits and merges it, and trades, then with a session key':
      freshWallet,
    'the documentation page explains itself and executes its example': docsExecute,
    'two wallets with dollars only trade by a mint, which the book and the ticket announce':
      mintOfTwo,
    'a refusal by the wallet is shown as a sentence': walletThatRefuses,
    'the page verifies the proof of an order, and finds a false one': orderIsProven,
    'a refused order shows the reason': refusalSaysWhy,
    'the whole page can be used on a phone': phone,
    'the book is beside the chart on a small laptop, and no dialog is cut off': layout,
    'keyboard shortcuts work, and positions are exported': keysAndExport,
    'every view passes the accessibility checks': accessible,
    'the report page of a load test fits a phone and is readable in both colour schemes':
      loadReport,
    'the server restarts and the page catches up': restartIsCaughtUp,
    'a quick market ends while it is shown': quickMarketEnds,
    'an outcome is proposed, settled and redeemed': resolutionAndRedemption,
    'the list names the winner of a market that has ended': listNamesTheWinner,
    'a wrong proposal is disputed with a bond': proposalIsDisputed,
  }
  // This story runs beside the next one, because it mostly waits for the chain. The other stories share markets,
  // traders or the clock.
  const besideNext: unknown = freshWallet
  let beside: Promise<void> | undefined
  for (const [name, story] of Object.entries(stories)) {
    const done = t.test(name, (inner) => story(inner, stage))
    if (story === besideNext) beside = done
    else await Promise.all([done, beside])
  }
})
