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

test('traders can trade, resolve markets and verify orders on the trading page in a browser', {
  skip,
  concurrency: 2,
}, async (t) => {
  const stage = await openStage(t)
  const stories = {
    'a demo trader buys shares from another demo trader on the page': tradeOfTwo,
    'before the first trade the chart describes the mid price in words': chartBeforeTrades,
    'after hundreds of random orders the page’s order ladder equals the book of the API':
      ladderOfManyOrders,
    'the URL keeps the filter of the market list, and watched markets stay after a reload':
      listInTheAddress,
    'the page of an event shows the event’s markets and the gap between their prices':
      eventWithItsMarkets,
    'the page reads the market list once, without ended markets': listIsReadOnce,
    'a shared link contains the market’s title and opens the market': shareLink,
    'a market order spends its amount within the slippage limit': marketOrder,
    'the order ticket shows the number that it parsed, and questions ambiguous input':
      ticketUnderstands,
    'the page asks for confirmation before selling more than the trader holds and before cancelling all':
      shortSaleWarns,
    'a wallet that never answers does not lock the order ticket': silentWallet,
    'a new wallet gets test money, splits and merges shares, and places orders with a session key':
      freshWallet,
    'the API documentation page shows its chapters and executes its example order': docsExecute,
    'two wallets without shares trade by a mint, which the order book and the ticket announce':
      mintOfTwo,
    'a refusal by the wallet is shown as a sentence': walletThatRefuses,
    'the page verifies the proof of an order, and reports a false proof': orderIsProven,
    'the page shows the reason for which an order was refused': refusalSaysWhy,
    'the whole page can be used on a phone': phone,
    'the book is beside the chart on a small laptop, and no dialog is cut off': layout,
    'keyboard shortcuts work, and positions are exported': keysAndExport,
    'every view passes the accessibility checks': accessible,
    'the report page of a load test fits a phone and is readable in both colour schemes':
      loadReport,
    'after the server restarts the page shows the current book without a reload': restartIsCaughtUp,
    'the page of a quick market shows the end, the winner and a link to the next quick market':
      quickMarketEnds,
    'a trader proposes an outcome, settles the market and redeems the winning shares on the page':
      resolutionAndRedemption,
    'the list names the winner of a market that has ended': listNamesTheWinner,
    'a wrong proposal is disputed with a bond': proposalIsDisputed,
  }
  // This story runs together with the next one, because it mostly waits for the chain. All others run one after the
  // other, because they share markets, traders or the clock.
  const besideNext: unknown = freshWallet
  let beside: Promise<void> | undefined
  for (const [name, story] of Object.entries(stories)) {
    const done = t.test(name, (inner) => story(inner, stage))
    if (story === besideNext) beside = done
    else await Promise.all([done, beside])
  }
})
