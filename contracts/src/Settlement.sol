// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {CTHelpers} from "./CTHelpers.sol";
import {Delegates} from "./Delegates.sol";
import {IConditionalTokens} from "./interfaces/IConditionalTokens.sol";

/// Settles matched trades between traders who signed orders, in batches, without ever holding their
/// funds: the collateral goes from buyer to seller and the outcome tokens from seller to buyer in
/// the same call, both or neither. Two buyers of opposite outcomes trade by a mint: their collateral
/// is split into both tokens. Two sellers of opposite outcomes trade by a merge of their tokens.
///
/// A batch lists each signed order once; fills refer to orders by index, so that an order which
/// meets ten others is sent, hashed and recovered once. Three rules shape the code:
///
/// 1. A fill is first checked without any outside call. Then it runs in a call of this contract to
///    itself with a fixed amount of gas, so that whatever a token or a receiver does, it can undo
///    only that fill, burn only that gas, and return at most one word.
/// 2. A fill that cannot be settled is reported with its reason and the side at fault, and the
///    batch goes on. When too little gas is left to give a fill its full amount, the whole batch
///    reverts: a fill is never reported as failed because the operator was short of gas.
/// 3. The operator chooses what to match, and nothing else: every movement needs the signature of
///    the trader who pays, within his price, size and time: of his key, of a key that he appointed,
///    or one that the code of his account accepts (see `Delegates`).
///
/// Worked example: Ann signs BUY 10 YES at 0.60, Bob signs SELL 4 YES at 0.55. A fill of 4 at 0.55
/// moves 2.20 of collateral from Ann to Bob and 4 YES from Bob to Ann. Ann's order has 6 left. Carol
/// signs BUY 6 NO at 0.45: a mint of 6 at 0.60 takes 3.60 from Ann and 2.40 from Carol, splits them,
/// and delivers 6 YES to Ann and 6 NO to Carol.
contract Settlement is EIP712, Ownable2Step, Pausable, ReentrancyGuardTransient {
    struct Order {
        bytes32 marketId;
        address trader;
        uint8 side;
        uint8 outcome;
        uint64 price;
        uint64 size;
        uint64 nonce;
        uint64 expiration;
        address makerFeeRecipient;
    }

    /// The signature in the compact form of ERC-2098: `vs` is `s` with the parity of `v` on top.
    struct SignedOrder {
        Order order;
        bytes32 r;
        bytes32 vs;
    }

    /// `buy` and `sell` are indices into the batch's orders; `seq` and `fillIndex` are the
    /// exchange's number of the trade within its market.
    ///
    /// A BUY of the other outcome at q may stand in for a SELL at 1 − q: then both are BUY, and the
    /// fill is a mint. A SELL of the other outcome at q may stand in for a BUY at 1 − q: then both
    /// are SELL, and the fill is a merge. `price` is that of the order that does not stand in.
    struct Fill {
        uint32 buy;
        uint32 sell;
        uint64 seq;
        uint32 fillIndex;
        uint64 price;
        uint64 size;
    }

    /// An ERC-2612 permit of the collateral with this contract as the spender, tried just before
    /// the fill with the index `fill`. A permit replaces the allowance that was there: when a batch
    /// has two of one owner, the fills of the first come before the second.
    struct Permit {
        uint32 fill;
        address owner;
        uint256 value;
        uint256 deadline;
        uint8 v;
        bytes32 r;
        bytes32 s;
    }

    /// One slot per order. A trade has to be remembered so that it never settles twice, and a slot
    /// of its own would be a fifth of its cost. So the first trade of an order is remembered in the
    /// order's slot, which is written anyway: by the low 152 bits of its id, compared only with
    /// trades of the same order. A trade that finds both its orders' places taken gets a slot.
    struct OrderState {
        uint64 filled;
        /// When the trader's cancellation takes effect; zero if he has not cancelled.
        uint40 cancelledFrom;
        uint152 firstTrade;
    }

    /// Orders of a trader with a nonce below `nonce` are void; from `nextFrom` on, those below
    /// `next` are. Both only ever rise.
    struct Epoch {
        uint64 nonce;
        uint64 next;
        uint40 nextFrom;
    }

    /// What an order is worth before its fills are looked at.
    enum Standing {
        Unsigned,
        Good,
        Void
    }

    /// What is known of a batch: of each of its orders, and of each of its fills.
    struct Batch {
        bytes32[] hashes;
        Standing[] standings;
        bytes verdicts;
    }

    /// What the call that moves the funds is handed: everything checked and computed.
    struct Execution {
        bytes32 tradeId;
        bytes32 marketId;
        bytes32 buyHash;
        bytes32 sellHash;
        address buyer;
        address seller;
        uint8 outcome;
        uint64 price;
        uint64 size;
        uint256 cost;
        uint256 positionId;
    }

    /// The side that could not perform; `None` when neither is to blame.
    enum Fault {
        None,
        Buyer,
        Seller,
        Both
    }

    enum Reason {
        None,
        AlreadySettled,
        WrongSide,
        MarketMismatch,
        OutcomeMismatch,
        SizeZero,
        PriceOutOfRange,
        PriceAboveBuyLimit,
        PriceBelowSellLimit,
        InvalidSignature,
        FeeRecipientNotZero,
        OrderExpired,
        OrderCancelled,
        OrderOverfilled,
        MarketUnknown,
        InsufficientCollateral,
        InsufficientAllowance,
        InsufficientShares,
        SharesNotApproved,
        BothUnfunded,
        CollateralRefused,
        SharesRefused
    }

    uint8 private constant BUY = 0;
    uint8 private constant SELL = 1;
    uint8 private constant OUTCOMES = 2;
    /// How a fill moves funds, see `Fill`. Not an enum, whose comparisons cost every fill 100 gas.
    uint256 private constant TRADE = 0;
    uint256 private constant MINT = 1;
    uint256 private constant MERGE = 2;
    uint256 private constant ONE = 1_000_000;

    /// Gas of one fill's own call, and inside it of each of the two transfers. The rest pays for
    /// the three storage slots a first fill writes. An honest fill needs about half of each.
    uint256 public constant FILL_GAS = 300_000;
    uint256 private constant TRANSFER_GAS = 100_000;
    uint256 private constant PERMIT_GAS = 100_000;
    uint256 private constant VIEW_GAS = 30_000;
    /// What must be left before a fill: its own gas (the EVM keeps back one part in 64) and enough
    /// to find out and report why it failed.
    uint256 private constant GAS_BEFORE_FILL = (FILL_GAS * 64) / 63 + 150_000;
    /// The same for a mint or a merge, which has four transfers, and a split or merge of its own
    /// limit. Most of that limit is for markets whose token ids take long to find.
    uint256 private constant SET_FILL_GAS = 750_000;
    uint256 private constant SET_GAS = 250_000;
    uint256 private constant GAS_BEFORE_SET_FILL = (SET_FILL_GAS * 64) / 63 + 150_000;

    /// What must be there for each order that its trader's key did not sign, beside the gas of all
    /// fills: `Delegates.SIGNATURE_GAS` and the calls around it. It is demanded before the first
    /// account is asked, so that no account can make a batch run short that was simulated.
    uint256 private constant SIGNER_GAS = 130_000;

    uint256 private constant CANCEL_DELAY_MAX = 7 days;

    bytes32 public constant ORDER_TYPEHASH = keccak256(
        "Order(bytes32 marketId,address trader,uint8 side,uint8 outcome,uint64 price,uint64 size,uint64 nonce,uint64 expiration,address makerFeeRecipient)"
    );

    /// There is no nonce in these two: a cancellation that is sent again changes nothing, and a row
    /// of nonces would let one message that was lost hold up all later ones.
    bytes32 public constant CANCEL_ORDERS_TYPEHASH =
        keccak256("CancelOrders(address trader,bytes32[] orderHashes,uint256 deadline)");
    bytes32 public constant CANCEL_ALL_BEFORE_TYPEHASH =
        keccak256("CancelAllBefore(address trader,uint64 nonce,uint256 deadline)");

    /// Traders fall into so many groups by their address. Fits into the slot of `_paused`.
    uint256 private constant GROUPS = 88;
    /// The groups that have a trader with an epoch, a bit each. An order whose trader is in another
    /// group costs no look at the trader's epoch, which would be 2,100 gas.
    uint88 private _groupsWithEpoch;

    IERC20 public immutable collateral;
    IConditionalTokens public immutable conditionalTokens;
    /// How long after its expiration an order's trades may still settle: they were matched in time.
    uint64 public immutable settlementGrace;
    /// How long after a cancellation on chain an order's trades may still settle. It is longer than
    /// the grace, so that cancelling is never a free option against a match already made.
    uint64 public immutable cancelDelay;
    /// Keys that accounts appointed. Made by the constructor, so its address follows from this one.
    Delegates public immutable delegates;

    mapping(address account => bool) public isOperator;
    mapping(bytes32 orderHash => OrderState) private _orders;
    mapping(address trader => Epoch) private _epochs;
    /// Settled trades that are not the first of either of their orders.
    mapping(bytes32 tradeId => bool) private _settledLater;

    event OperatorSet(address indexed account, bool allowed);
    event OrderCancelled(bytes32 indexed orderHash, address indexed trader, uint64 effectiveAt);
    event AllOrdersCancelled(address indexed trader, uint64 beforeNonce, uint64 effectiveAt);
    event TradeSettled(
        bytes32 indexed tradeId,
        address indexed buyer,
        address indexed seller,
        bytes32 marketId,
        bytes32 buyHash,
        bytes32 sellHash,
        uint8 outcome,
        uint64 price,
        uint64 size,
        uint256 cost
    );
    event TradeRejected(
        bytes32 indexed tradeId,
        bytes32 indexed buyHash,
        bytes32 indexed sellHash,
        Fault fault,
        Reason reason
    );

    error NotOperator(address account);
    error NotTrader(bytes32 orderHash);
    /// The deadline of a signed cancellation has passed.
    error PermitExpired(uint256 deadline);
    /// The signature is another account's, or over other data (another chain or contract).
    error PermitSignerMismatch(address signer, address owner);
    /// The trader's last `cancelAllBefore` has yet to take effect; until then there is no other.
    error EpochPending(uint64 effectiveAt);
    error OnlySelf();
    error OrderIndexOutOfRange(uint256 fill);
    error PermitOutOfOrder(uint256 permit);
    error TooLittleGas(uint256 fill);
    error InvalidConfiguration();
    error OwnershipNotRenounceable();
    error CollateralMoveFailed();
    error SharesMoveFailed();
    /// The seller of a mint does not take the tokens.
    error SellerSharesMoveFailed();
    error ProbePassed();
    error ProbeFailed();

    modifier onlySelf() {
        if (msg.sender != address(this)) revert OnlySelf();
        _;
    }

    constructor(
        IERC20 collateral_,
        IConditionalTokens conditionalTokens_,
        address owner_,
        address operator_,
        uint64 settlementGrace_,
        uint64 cancelDelay_
    ) EIP712("SibylSettlement", "1") Ownable(owner_) {
        if (
            address(collateral_).code.length == 0 || address(conditionalTokens_).code.length == 0
                || cancelDelay_ <= settlementGrace_ || cancelDelay_ > CANCEL_DELAY_MAX
        ) revert InvalidConfiguration();
        collateral = collateral_;
        conditionalTokens = conditionalTokens_;
        settlementGrace = settlementGrace_;
        cancelDelay = cancelDelay_;
        delegates = new Delegates(settlementGrace_, cancelDelay_);
        _setOperator(operator_, true);
        // For mints. The conditional tokens take collateral from nobody but their caller.
        SafeERC20.forceApprove(collateral_, address(conditionalTokens_), type(uint256).max);
    }

    /// Settles what can be settled of `fills`, in order, and reports the rest. Permits stand in the
    /// order of their fills. Each is tried just before its fill and may fail (another account may
    /// have submitted it already): only the allowance that is there when a fill runs counts.
    ///
    /// Returns a byte for each fill, for who simulates before he sends: zero for one that settles,
    /// else the fault in the upper two bits and the reason in the lower six. In a transaction the
    /// events tell the same.
    function settle(
        SignedOrder[] calldata orders,
        Fill[] calldata fills,
        Permit[] calldata permits
    ) external nonReentrant whenNotPaused returns (bytes memory verdicts) {
        if (!isOperator[msg.sender]) revert NotOperator(msg.sender);
        Batch memory batch;
        (batch.hashes, batch.standings) = _hashAndRecover(orders, fills);
        verdicts = new bytes(fills.length);
        batch.verdicts = verdicts;
        uint256 permit = 0;
        for (uint256 i = 0; i < fills.length; ++i) {
            if (fills[i].buy >= orders.length || fills[i].sell >= orders.length) {
                revert OrderIndexOutOfRange(i);
            }
            for (; permit < permits.length && permits[permit].fill == i; ++permit) {
                _tryPermit(permits[permit]);
            }
            _settleFill(i, fills[i], orders, batch);
        }
        if (permit != permits.length) revert PermitOutOfOrder(permit);
    }

    /// The part of a fill that touches storage and funds. It is external only so that it can run
    /// under its own gas and be undone alone.
    function executeFill(Execution calldata e) external onlySelf {
        _record(e);

        if (!_moveCollateral(e.buyer, e.seller, e.cost)) revert CollateralMoveFailed();
        // Last, because it may call the buyer: at that point he has paid.
        (bool moved,,) = _call(
            address(conditionalTokens),
            TRANSFER_GAS,
            abi.encodeCall(
                IERC1155.safeTransferFrom, (e.seller, e.buyer, e.positionId, e.size, "")
            )
        );
        if (!moved) revert SharesMoveFailed();
        emit TradeSettled(
            e.tradeId,
            e.buyer,
            e.seller,
            e.marketId,
            e.buyHash,
            e.sellHash,
            e.outcome,
            e.price,
            e.size,
            e.cost
        );
    }

    /// `executeFill` of a mint or a merge. A mint takes the cost from the buyer and the rest of
    /// `size` from the seller, splits exactly that, and delivers one outcome to each. A merge takes
    /// one outcome from each, merges them, and pays the cost to the seller and the rest to the buyer.
    function executeSets(Execution calldata e, bool isMint) external onlySelf {
        _record(e);
        (address buyer, address seller, uint256 size) = (e.buyer, e.seller, e.size);
        (uint256 id, uint256 otherId) = (e.positionId, _positionId(e.marketId, 1 - e.outcome));
        uint256 held = _held();
        if (isMint) {
            if (
                !_moveCollateral(buyer, address(this), e.cost)
                    || !_moveCollateral(seller, address(this), size - e.cost)
                    || !_callSets(IConditionalTokens.splitPosition.selector, e.marketId, size)
                    || _held() < held
            ) revert CollateralMoveFailed();
            // Last, because they may call the two: at that point both have paid.
            if (!_moveShares(address(this), buyer, id, size)) revert SharesMoveFailed();
            if (!_moveShares(address(this), seller, otherId, size)) revert SellerSharesMoveFailed();
        } else if (
            !_moveShares(seller, address(this), id, size)
                || !_moveShares(buyer, address(this), otherId, size)
                || !_callSets(IConditionalTokens.mergePositions.selector, e.marketId, size)
                || !_pay(seller, e.cost) || !_pay(buyer, size - e.cost) || _held() < held
        ) revert CollateralMoveFailed();
        _emitSettled(e);
    }

    /// Receives the outcome tokens of a mint or a merge, `onERC1155Received` and
    /// `onERC1155BatchReceived` in one: both begin with the account that moves the tokens, and return
    /// their own selector. Only this contract can move tokens to itself, so none strand here.
    fallback() external {
        if (
            msg.sender != address(conditionalTokens)
                || uint256(bytes32(msg.data[4:])) != uint160(address(this))
        ) revert OnlySelf();
        assembly ("memory-safe") {
            mstore(0x00, and(calldataload(0x00), shl(224, 0xffffffff)))
            return(0x00, 0x20)
        }
    }

    /// Tells whether the collateral moves for `account` at all (a stablecoin may have blocked it),
    /// by moving nothing from it to itself. Always reverts.
    function probeCollateral(address account) external onlySelf {
        if (_moveCollateral(account, account, 0)) revert ProbePassed();
        revert ProbeFailed();
    }

    /// Withdraws the caller's orders. It takes effect after `cancelDelay`, so that trades that the
    /// exchange has already matched still settle.
    function cancelOrders(Order[] calldata orders) external {
        _cancelOrders(msg.sender, orders);
    }

    /// `cancelOrders` for `trader`, by any caller with his or a delegate's signature of the orders'
    /// hashes.
    function cancelOrdersWithPermit(
        address trader,
        Order[] calldata orders,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 hashes = keccak256(abi.encodePacked(_cancelOrders(trader, orders)));
        bytes32 structHash =
            keccak256(abi.encode(CANCEL_ORDERS_TYPEHASH, trader, hashes, deadline));
        _requireSigned(structHash, trader, true, deadline, v, r, s);
    }

    /// Withdraws every order of the caller whose nonce is below `nonce`, also those not shown yet,
    /// with the same delay. Orders with a lower nonce that he signs later are void too.
    function cancelAllBefore(uint64 nonce) external {
        _cancelAllBefore(msg.sender, nonce);
    }

    /// `cancelAllBefore` for `trader`, by any caller with his signature. A delegate's does not do: it
    /// could void every later order of the trader for good.
    function cancelAllBeforeWithPermit(
        address trader,
        uint64 nonce,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 structHash =
            keccak256(abi.encode(CANCEL_ALL_BEFORE_TYPEHASH, trader, nonce, deadline));
        _requireSigned(structHash, trader, false, deadline, v, r, s);
        _cancelAllBefore(trader, nonce);
    }

    function setOperator(address account, bool allowed) external onlyOwner {
        _setOperator(account, allowed);
    }

    /// An operator may stop settlement in an emergency; only the owner may resume it.
    function pause() external {
        if (msg.sender != owner() && !isOperator[msg.sender]) revert NotOperator(msg.sender);
        _pause();
    }

    function unpause() external onlyOwner {
        _unpause();
    }

    /// Without an owner a rogue operator could not be removed.
    function renounceOwnership() public view override onlyOwner {
        revert OwnershipNotRenounceable();
    }

    /// The EIP-712 digest that the trader signs: the order's identity.
    function hashOrder(Order calldata order) public view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(_domainSeparatorV4(), _structHash(order));
    }

    function tradeIdOf(
        bytes32 marketId,
        uint64 seq,
        uint32 fillIndex,
        bytes32 buyHash,
        bytes32 sellHash,
        uint64 price,
        uint64 size
    ) public view returns (bytes32) {
        return keccak256(
            abi.encode(
                block.chainid,
                address(this),
                marketId,
                seq,
                fillIndex,
                buyHash,
                sellHash,
                price,
                size
            )
        );
    }

    function orderState(bytes32 orderHash)
        external
        view
        returns (uint64 filled, uint64 cancelledFrom)
    {
        OrderState memory state = _orders[orderHash];
        return (state.filled, state.cancelledFrom);
    }

    /// Below which nonce a trader's orders are void, and from `nextFrom` on below which.
    function epochOf(address trader)
        external
        view
        returns (uint64 nonce, uint64 next, uint64 nextFrom)
    {
        Epoch memory epoch = _epochs[trader];
        return (epoch.nonce, epoch.next, epoch.nextFrom);
    }

    /// Whether a trade has settled. The hashes are those of its two orders.
    function isSettled(bytes32 tradeId, bytes32 buyHash, bytes32 sellHash)
        public
        view
        returns (bool)
    {
        return _isSettled(tradeId, _orders[buyHash], _orders[sellHash]);
    }

    /// What a fill costs: price × size, rounded up to the next unit of collateral.
    function costOf(uint64 price, uint64 size) public pure returns (uint256) {
        return (uint256(price) * size + ONE - 1) / ONE;
    }

    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    function _cancelOrders(address trader, Order[] calldata orders)
        private
        returns (bytes32[] memory hashes)
    {
        uint40 effectiveAt = uint40(block.timestamp + cancelDelay);
        hashes = new bytes32[](orders.length);
        for (uint256 i = 0; i < orders.length; ++i) {
            bytes32 orderHash = hashOrder(orders[i]);
            hashes[i] = orderHash;
            if (orders[i].trader != trader) revert NotTrader(orderHash);
            OrderState storage state = _orders[orderHash];
            if (state.cancelledFrom != 0) continue;
            state.cancelledFrom = effectiveAt;
            emit OrderCancelled(orderHash, trader, effectiveAt);
        }
    }

    /// Does nothing when that much is void, or about to be: it cannot be used to put anything off.
    function _cancelAllBefore(address trader, uint64 nonce) private {
        Epoch memory epoch = _epochs[trader];
        if (nonce <= epoch.next) return;
        // One that waits would wait anew if it were replaced, and would lend its time to orders
        // that may have been matched since if it were raised.
        if (block.timestamp < epoch.nextFrom) revert EpochPending(epoch.nextFrom);
        uint40 effectiveAt = uint40(block.timestamp + cancelDelay);
        _epochs[trader] = Epoch({nonce: epoch.next, next: nonce, nextFrom: effectiveAt});
        _groupsWithEpoch |= uint88(1 << _groupOf(trader));
        emit AllOrdersCancelled(trader, nonce, effectiveAt);
    }

    function _requireSigned(
        bytes32 structHash,
        address trader,
        bool byDelegate,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) private view {
        if (block.timestamp > deadline) revert PermitExpired(deadline);
        bytes32 digest = _hashTypedDataV4(structHash);
        (address signer,,) = ECDSA.tryRecover(digest, v, r, s);
        if (signer != address(0) && signer == trader) return;
        bytes32 vs = s | bytes32(uint256(v == 28 ? 1 : 0) << 255);
        if (!delegates.isSigner(trader, byDelegate ? signer : address(0), digest, r, vs)) {
            revert PermitSignerMismatch(signer, trader);
        }
    }

    function _settleFill(
        uint256 index,
        Fill calldata fill,
        SignedOrder[] calldata orders,
        Batch memory batch
    ) private {
        Order calldata buy = orders[fill.buy].order;
        Order calldata sell = orders[fill.sell].order;
        Execution memory e;
        e.buyHash = batch.hashes[fill.buy];
        e.sellHash = batch.hashes[fill.sell];
        e.marketId = buy.marketId;
        e.price = fill.price;
        e.size = fill.size;
        e.tradeId = tradeIdOf(
            e.marketId, fill.seq, fill.fillIndex, e.buyHash, e.sellHash, e.price, e.size
        );

        Fault fault;
        Reason reason;
        uint256 kind;
        if (isSettled(e.tradeId, e.buyHash, e.sellHash)) reason = Reason.AlreadySettled;
        else (reason, kind) = _checkMatch(e, buy, sell);
        if (reason == Reason.None) {
            (fault, reason) = _checkOrders(
                e, buy, sell, batch.standings[fill.buy], batch.standings[fill.sell]
            );
        }
        if (reason == Reason.None) {
            e.buyer = buy.trader;
            e.seller = sell.trader;
            e.cost = costOf(e.price, e.size);
            (fault, reason) = _execute(index, e, kind);
            if (reason == Reason.None) return;
        }
        emit TradeRejected(e.tradeId, e.buyHash, e.sellHash, fault, reason);
        batch.verdicts[index] = bytes1((uint8(fault) << 6) | uint8(reason));
    }

    /// Moves the funds of a fill that passed every check, or finds out why they do not move.
    function _execute(uint256 index, Execution memory e, uint256 kind)
        private
        returns (Fault, Reason)
    {
        e.positionId = _positionId(e.marketId, e.outcome);
        bool done;
        uint256 word;
        if (kind == TRADE) {
            if (gasleft() < GAS_BEFORE_FILL) revert TooLittleGas(index);
            (done,, word) =
                _call(address(this), FILL_GAS, abi.encodeCall(this.executeFill, (e)));
        } else {
            // Only so that it is known: the inner call asks for it.
            _positionId(e.marketId, 1 - e.outcome);
            if (gasleft() < GAS_BEFORE_SET_FILL) revert TooLittleGas(index);
            (done,, word) = _call(
                address(this),
                SET_FILL_GAS,
                abi.encodeCall(this.executeSets, (e, kind == MINT))
            );
        }
        if (done) return (Fault.None, Reason.None);
        return _diagnose(e, kind, bytes4(bytes32(word)));
    }

    /// Whether the two orders and the fill belong together. What is wrong here is the operator's
    /// doing: the traders are not at fault.
    function _checkMatch(Execution memory e, Order calldata buy, Order calldata sell)
        private
        pure
        returns (Reason, uint256 kind)
    {
        {
            (uint8 side, uint8 otherSide) = (buy.side, sell.side);
            if (side == BUY && otherSide == SELL) kind = TRADE;
            else if (side == BUY && otherSide == BUY) kind = MINT;
            else if (side == SELL && otherSide == SELL) kind = MERGE;
            else return (Reason.WrongSide, kind);
        }
        if (buy.marketId != sell.marketId) return (Reason.MarketMismatch, kind);
        (uint8 outcome, uint8 otherOutcome) = (buy.outcome, sell.outcome);
        if ((outcome == otherOutcome) != (kind == TRADE) || (outcome | otherOutcome) >= OUTCOMES) {
            // Two of one side can only settle as opposite outcomes.
            bool isSide = kind != TRADE && outcome == otherOutcome;
            return (isSide ? Reason.WrongSide : Reason.OutcomeMismatch, kind);
        }
        e.outcome = kind == MERGE ? otherOutcome : outcome;
        uint256 price = e.price;
        if (e.size == 0) return (Reason.SizeZero, kind);
        if (price == 0 || price >= ONE) return (Reason.PriceOutOfRange, kind);
        // The order that stands in has its limit at 1 − q, and q may be any number.
        if (kind == MERGE ? price + buy.price > ONE : price > buy.price) {
            return (Reason.PriceAboveBuyLimit, kind);
        }
        if (kind == MINT ? price + sell.price < ONE : price < sell.price) {
            return (Reason.PriceBelowSellLimit, kind);
        }
        return (Reason.None, kind);
    }

    /// Whether each order is signed, in time, not cancelled, and has room for the fill.
    function _checkOrders(
        Execution memory e,
        Order calldata buy,
        Order calldata sell,
        Standing buyStanding,
        Standing sellStanding
    ) private view returns (Fault fault, Reason) {
        fault = _fault(buyStanding == Standing.Unsigned, sellStanding == Standing.Unsigned);
        if (fault != Fault.None) return (fault, Reason.InvalidSignature);

        fault = _fault(buy.makerFeeRecipient != address(0), sell.makerFeeRecipient != address(0));
        if (fault != Fault.None) return (fault, Reason.FeeRecipientNotZero);

        fault = _fault(_isExpired(buy), _isExpired(sell));
        if (fault != Fault.None) return (fault, Reason.OrderExpired);

        OrderState memory buyState = _orders[e.buyHash];
        OrderState memory sellState = _orders[e.sellHash];
        fault = _fault(
            buyStanding == Standing.Void || _isCancelled(buyState),
            sellStanding == Standing.Void || _isCancelled(sellState)
        );
        if (fault != Fault.None) return (fault, Reason.OrderCancelled);

        fault = _fault(
            uint256(buyState.filled) + e.size > buy.size,
            uint256(sellState.filled) + e.size > sell.size
        );
        if (fault != Fault.None) return (fault, Reason.OrderOverfilled);
        return (Fault.None, Reason.None);
    }

    /// Writes down the fill: how much of each order is filled, and that the trade has settled.
    function _record(Execution calldata e) private {
        OrderState memory buyState = _orders[e.buyHash];
        OrderState memory sellState = _orders[e.sellHash];
        buyState.filled += e.size;
        sellState.filled += e.size;
        uint152 mark = _mark(e.tradeId);
        if (sellState.firstTrade == 0) sellState.firstTrade = mark;
        else if (buyState.firstTrade == 0) buyState.firstTrade = mark;
        else _settledLater[e.tradeId] = true;
        _orders[e.buyHash] = buyState;
        _orders[e.sellHash] = sellState;
    }

    /// Looks in each of the three places where `_record` may have put the trade.
    function _isSettled(bytes32 tradeId, OrderState memory buyState, OrderState memory sellState)
        private
        view
        returns (bool)
    {
        uint152 mark = _mark(tradeId);
        if (sellState.firstTrade == mark || buyState.firstTrade == mark) return true;
        if (sellState.firstTrade == 0 || buyState.firstTrade == 0) return false;
        return _settledLater[tradeId];
    }

    /// Finds out why the funds did not move. The fill has been undone, so the state is what it was
    /// before. Only asked on failure: a good fill does not pay for it.
    function _diagnose(Execution memory e, uint256 kind, bytes4 stage)
        private
        returns (Fault, Reason)
    {
        address tokens = address(conditionalTokens);
        if (
            _read(tokens, abi.encodeCall(conditionalTokens.getOutcomeSlotCount, (e.marketId))) == 0
        ) return (Fault.None, Reason.MarketUnknown);

        Reason buyer = kind == MERGE
            ? _sharesShortage(e.buyer, _positionId(e.marketId, 1 - e.outcome), e.size)
            : _collateralShortage(e.buyer, e.cost);
        // A trader who buys from himself by a mint pays both parts.
        Reason seller = kind == MINT
            ? _collateralShortage(e.seller, e.buyer == e.seller ? e.size : e.size - e.cost)
            : _sharesShortage(e.seller, e.positionId, e.size);
        if (buyer != Reason.None && seller != Reason.None) {
            return (Fault.Both, Reason.BothUnfunded);
        }
        if (buyer != Reason.None) return (Fault.Buyer, buyer);
        if (seller != Reason.None) return (Fault.Seller, seller);

        // Everything is there: either a trader, who is called when he receives, refused the
        // tokens,
        if (stage == SharesMoveFailed.selector) return (Fault.Buyer, Reason.SharesRefused);
        if (stage == SellerSharesMoveFailed.selector) return (Fault.Seller, Reason.SharesRefused);
        // or the collateral refused one of the two. When it refuses both it is the token's doing.
        bool buyerRefused = !_probe(e.buyer);
        bool sellerRefused = !_probe(e.seller);
        if (buyerRefused == sellerRefused) return (Fault.None, Reason.CollateralRefused);
        return (buyerRefused ? Fault.Buyer : Fault.Seller, Reason.CollateralRefused);
    }

    function _collateralShortage(address account, uint256 amount) private view returns (Reason) {
        address token = address(collateral);
        if (_read(token, abi.encodeCall(IERC20.balanceOf, (account))) < amount) {
            return Reason.InsufficientCollateral;
        }
        if (_read(token, abi.encodeCall(IERC20.allowance, (account, address(this)))) < amount) {
            return Reason.InsufficientAllowance;
        }
        return Reason.None;
    }

    function _sharesShortage(address account, uint256 id, uint256 amount)
        private
        view
        returns (Reason)
    {
        address token = address(conditionalTokens);
        if (_read(token, abi.encodeCall(IERC1155.balanceOf, (account, id))) < amount) {
            return Reason.InsufficientShares;
        }
        if (
            _read(token, abi.encodeCall(IERC1155.isApprovedForAll, (account, address(this)))) == 0
        ) return Reason.SharesNotApproved;
        return Reason.None;
    }

    function _probe(address account) private returns (bool) {
        (,, uint256 word) = _call(
            address(this), TRANSFER_GAS + VIEW_GAS, abi.encodeCall(this.probeCollateral, (account))
        );
        return bytes4(bytes32(word)) == ProbePassed.selector;
    }

    function _hashAndRecover(SignedOrder[] calldata orders, Fill[] calldata fills)
        private
        view
        returns (bytes32[] memory hashes, Standing[] memory standings)
    {
        bytes32 domainSeparator = _domainSeparatorV4();
        hashes = new bytes32[](orders.length);
        standings = new Standing[](orders.length);
        uint256 groups = _groupsWithEpoch;
        uint256 others = 0;
        for (uint256 i = 0; i < orders.length; ++i) {
            SignedOrder calldata o = orders[i];
            bytes32 digest =
                MessageHashUtils.toTypedDataHash(domainSeparator, _structHash(o.order));
            (address signer,,) = ECDSA.tryRecover(digest, o.r, o.vs);
            hashes[i] = digest;
            if (signer == address(0) || signer != o.order.trader) ++others;
            else standings[i] = _standing(o.order, groups);
        }
        if (others == 0) return (hashes, standings);
        if (gasleft() < others * SIGNER_GAS + _gasOf(orders, fills)) revert TooLittleGas(0);
        for (uint256 i = 0; i < orders.length; ++i) {
            if (standings[i] != Standing.Unsigned) continue;
            SignedOrder calldata o = orders[i];
            (address signer,,) = ECDSA.tryRecover(hashes[i], o.r, o.vs);
            if (delegates.isSigner(o.order.trader, signer, hashes[i], o.r, o.vs)) {
                standings[i] = _standing(o.order, groups);
            }
        }
    }

    /// The gas of all fills of a batch, whatever their traders do.
    function _gasOf(SignedOrder[] calldata orders, Fill[] calldata fills)
        private
        pure
        returns (uint256 gas)
    {
        gas = 150_000;
        for (uint256 i = 0; i < fills.length; ++i) {
            bool isSets = orders[fills[i].buy].order.side == orders[fills[i].sell].order.side;
            gas += (isSets ? SET_FILL_GAS : FILL_GAS) + 50_000;
        }
    }

    /// Of an order that is signed: whether its trader's epoch has voided it.
    function _standing(Order calldata order, uint256 groups) private view returns (Standing) {
        bool mayBeVoid = (groups >> _groupOf(order.trader)) & 1 != 0;
        bool isVoid = mayBeVoid && order.nonce < _epochNow(order.trader);
        return isVoid ? Standing.Void : Standing.Good;
    }

    /// The ERC-1155 id of an outcome of a market. It takes some thousand gas to compute and a batch
    /// asks for few different ones, so the answer is kept until the end of the transaction.
    function _positionId(bytes32 marketId, uint8 outcome) private returns (uint256 id) {
        bytes32 slot = keccak256(abi.encode(marketId, outcome));
        assembly ("memory-safe") {
            id := tload(slot)
        }
        if (id != 0) return id;
        id = CTHelpers.getPositionId(
            collateral, CTHelpers.getCollectionId(bytes32(0), marketId, 1 << outcome)
        );
        assembly ("memory-safe") {
            tstore(slot, id)
        }
    }

    function _tryPermit(Permit calldata p) private {
        _call(
            address(collateral),
            PERMIT_GAS,
            abi.encodeCall(
                IERC20Permit.permit, (p.owner, address(this), p.value, p.deadline, p.v, p.r, p.s)
            )
        );
    }

    function _moveCollateral(address from, address to, uint256 amount) private returns (bool) {
        (bool success, uint256 length, uint256 word) = _call(
            address(collateral),
            TRANSFER_GAS,
            abi.encodeCall(IERC20.transferFrom, (from, to, amount))
        );
        // Some tokens return nothing when they succeed; others return false when they fail.
        return success && (length == 0 || (length >= 32 && word == 1));
    }

    function _pay(address to, uint256 amount) private returns (bool) {
        (bool success, uint256 length, uint256 word) = _call(
            address(collateral), TRANSFER_GAS, abi.encodeCall(IERC20.transfer, (to, amount))
        );
        return success && (length == 0 || (length >= 32 && word == 1));
    }

    function _moveShares(address from, address to, uint256 id, uint256 amount)
        private
        returns (bool success)
    {
        (success,,) = _call(
            address(conditionalTokens),
            TRANSFER_GAS,
            abi.encodeCall(IERC1155.safeTransferFrom, (from, to, id, amount, ""))
        );
    }

    /// Splits or merges `size` complete sets of the market.
    function _callSets(bytes4 selector, bytes32 marketId, uint256 size)
        private
        returns (bool success)
    {
        uint256[] memory partition = new uint256[](OUTCOMES);
        (partition[0], partition[1]) = (1, 2);
        (success,,) = _call(
            address(conditionalTokens),
            SET_GAS,
            abi.encodeWithSelector(selector, collateral, bytes32(0), marketId, partition, size)
        );
    }

    /// The collateral that was sent here by mistake. No mint or merge may end with less of it: a
    /// token that keeps a fee or moves less than it says would pay a trader from it.
    function _held() private view returns (uint256) {
        return _read(address(collateral), abi.encodeCall(IERC20.balanceOf, (address(this))));
    }

    function _emitSettled(Execution calldata e) private {
        emit TradeSettled(
            e.tradeId,
            e.buyer,
            e.seller,
            e.marketId,
            e.buyHash,
            e.sellHash,
            e.outcome,
            e.price,
            e.size,
            e.cost
        );
    }

    /// A call with a limit on its gas that copies at most one word of what it returns.
    function _call(address target, uint256 gasLimit, bytes memory data)
        private
        returns (bool success, uint256 length, uint256 word)
    {
        assembly ("memory-safe") {
            mstore(0x00, 0)
            success := call(gasLimit, target, 0, add(data, 0x20), mload(data), 0x00, 0x20)
            length := returndatasize()
            word := mload(0x00)
        }
    }

    /// A view with the same limits. What cannot be read counts as zero.
    function _read(address target, bytes memory data) private view returns (uint256 word) {
        bool success;
        uint256 length;
        assembly ("memory-safe") {
            success := staticcall(VIEW_GAS, target, add(data, 0x20), mload(data), 0x00, 0x20)
            length := returndatasize()
            word := mload(0x00)
        }
        if (!success || length < 32) return 0;
    }

    function _structHash(Order calldata order) private pure returns (bytes32) {
        return keccak256(abi.encode(ORDER_TYPEHASH, order));
    }

    function _isExpired(Order calldata order) private view returns (bool) {
        return block.timestamp > uint256(order.expiration) + settlementGrace;
    }

    function _isCancelled(OrderState memory state) private view returns (bool) {
        return state.cancelledFrom != 0 && block.timestamp >= state.cancelledFrom;
    }

    function _groupOf(address trader) private pure returns (uint256) {
        return uint160(trader) % GROUPS;
    }

    /// The nonce below which the trader's orders are void at this time.
    function _epochNow(address trader) private view returns (uint64) {
        Epoch memory epoch = _epochs[trader];
        return block.timestamp >= epoch.nextFrom ? epoch.next : epoch.nonce;
    }

    function _mark(bytes32 tradeId) private pure returns (uint152) {
        return uint152(uint256(tradeId));
    }

    function _fault(bool buyer, bool seller) private pure returns (Fault) {
        if (buyer) return seller ? Fault.Both : Fault.Buyer;
        return seller ? Fault.Seller : Fault.None;
    }

    function _setOperator(address account, bool allowed) private {
        isOperator[account] = allowed;
        emit OperatorSet(account, allowed);
    }
}
