"""The facts that Moses tokenization rests on: character classes and non-breaking prefixes.

Kept as constants, because the classes of ``unicodedata`` grow with every version of Python and a
corpus must tokenize the same everywhere. The classes are those of Perl's Unicode tables as they
come with sacremoses (Chinese, Japanese and Korean scripts are apart, see `CJK`); a range is
``first-last`` in hexadecimal. The prefixes are the abbreviations of the Moses project's lists: a
full stop after one of them does not end a sentence. One with a ``#`` at its end is a prefix only
before a number.
"""

from string import ascii_uppercase

#: Letters, marks and digits that stay inside a token.
ALNUM = (
    "30-39 41-5a 61-7a aa b5 ba c0-d6 d8-f6 f8-2c1 2c6-2d1 2e0-2e4 2ec 2ee 345 370-374 376-377 "
    "37a-37d 37f 386 388-38a 38c 38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 559 561-587 5b0-5bd 5bf "
    "5c1-5c2 5c4-5c5 5c7 5d0-5ea 5f0-5f2 610-61a 620-657 659-669 66e-6d3 6d5-6dc 6e1-6e8 6ed-6fc "
    "6ff 710-73f 74d-7b1 7c0-7ea 7f4-7f5 7fa 800-817 81a-82c 840-858 8a0-8b2 8e4-8e9 8f0-950 "
    "955-963 966-96f 971-983 985-98c 98f-990 993-9a8 9aa-9b0 9b2 9b6-9b9 9bc-9c4 9c7-9c8 9cb-9ce "
    "9d7 9dc-9dd 9df-9e3 9e6-9f1 a01-a03 a05-a0a a0f-a10 a13-a28 a2a-a30 a32-a33 a35-a36 a38-a39 "
    "a3c a3e-a42 a47-a48 a4b-a4d a51 a59-a5c a5e a66-a75 a81-a83 a85-a8d a8f-a91 a93-aa8 aaa-ab0 "
    "ab2-ab3 ab5-ab9 abc-ac5 ac7-ac9 acb-acd ad0 ae0-ae3 ae6-aef afd-aff b01-b03 b05-b0c b0f-b10 "
    "b13-b28 b2a-b30 b32-b33 b35-b39 b3c-b44 b47-b48 b4b-b4d b56-b57 b5c-b5d b5f-b63 b66-b6f b71 "
    "b82-b83 b85-b8a b8e-b90 b92-b95 b99-b9a b9c b9e-b9f ba3-ba4 ba8-baa bae-bb9 bbe-bc2 bc6-bc8 "
    "bca-bcd bd0 bd7 be6-bef c00-c03 c05-c0c c0e-c10 c12-c28 c2a-c39 c3d-c44 c46-c48 c4a-c4d "
    "c55-c56 c58-c59 c60-c63 c66-c6f c81-c83 c85-c8c c8e-c90 c92-ca8 caa-cb3 cb5-cb9 cbc-cc4 "
    "cc6-cc8 cca-ccd cd5-cd6 cde ce0-ce3 ce6-cef cf1-cf2 d01-d03 d05-d0c d0e-d10 d12-d44 d46-d48 "
    "d4a-d4e d57 d60-d63 d66-d6f d7a-d7f d82-d83 d85-d96 d9a-db1 db3-dbb dbd dc0-dc6 dca dcf-dd4 "
    "dd6 dd8-ddf de6-def df2-df3 e01-e3a e40-e46 e4d e50-e59 e81-e82 e84 e87-e88 e8a e8d e94-e97 "
    "e99-e9f ea1-ea3 ea5 ea7 eaa-eab ead-ebd ec0-ec4 ec6 ecd ed0-ed9 edc-edf f00 f20-f29 f40-f47 "
    "f49-f6c f71-f81 f88-f97 f99-fbc 1000-1036 1038-1039 103b-1049 1050-1062 1065-1068 106e-1086 "
    "108e 1090-1099 109c-109d 10a0-10c5 10c7 10cd 10d0-10fa 10fc-1248 124a-124d 1250-1256 1258 "
    "125a-125d 1260-1288 128a-128d 1290-12b0 12b2-12b5 12b8-12be 12c0 12c2-12c5 12c8-12d6 "
    "12d8-1310 1312-1315 1318-135a 135f 1380-138f 13a0-13f4 1401-166c 166f-167f 1681-169a "
    "16a0-16ea 16ee-16f8 1700-170c 170e-1714 1720-1733 1740-1753 1760-176c 176e-1770 1772-1773 "
    "1780-17b3 17b6-17c8 17d7 17dc 17e0-17e9 1810-1819 1820-1877 1880-18aa 18b0-18f5 1900-191e "
    "1920-192b 1930-1938 1946-196d 1970-1974 1980-19ab 19b0-19c9 19d0-19d9 1a00-1a1b 1a20-1a5e "
    "1a61-1a74 1a80-1a89 1a90-1a99 1aa7 1b00-1b33 1b35-1b43 1b45-1b4b 1b50-1b59 1b80-1ba9 "
    "1bab-1be5 1be7-1bf1 1c00-1c35 1c37 1c40-1c49 1c4d-1c7d 1ce9-1cec 1cee-1cf3 1cf5-1cf6 "
    "1d00-1dbf 1de7-1df4 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d "
    "1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec "
    "1ff2-1ff4 1ff6-1ffc 2071 207f 2090-209c 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 "
    "212a-212d 212f-2139 213c-213f 2145-2149 214e 2160-2188 24b6-24e9 25cc 2c00-2c2e 2c30-2c5e "
    "2c60-2ce4 2ceb-2cee 2cf2-2cf3 2d00-2d25 2d27 2d2d 2d30-2d67 2d6f 2d80-2d96 2da0-2da6 "
    "2da8-2dae 2db0-2db6 2db8-2dbe 2dc0-2dc6 2dc8-2dce 2dd0-2dd6 2dd8-2dde 2de0-2dff 2e2f 3006 "
    "3031-3035 303c 3041-3096 309d-309f 30a1-30fa 30fc-30ff 3105-312d 3131-318e 31a0-31ba "
    "31f0-31ff a000-a48c a4d0-a4fd a500-a60c a610-a62b a640-a66e a674-a67b a67f-a69d a69f-a6ef "
    "a717-a71f a722-a788 a78b-a78e a790-a7ad a7b0-a7b1 a7f7-a801 a803-a805 a807-a80a a80c-a827 "
    "a840-a873 a880-a8c4 a8d0-a8d9 a8f2-a8f7 a8fb a900-a92a a930-a953 a960-a97c a980-a9b2 "
    "a9b4-a9bf a9cf-a9d9 a9e0-a9e4 a9e6-a9fe aa00-aa36 aa40-aa4d aa50-aa59 aa60-aa76 aa7a "
    "aa7e-aabe aac0 aac2 aadb-aadd aae0-aaef aaf2-aaf6 ab01-ab06 ab09-ab0e ab11-ab16 ab20-ab26 "
    "ab28-ab2e ab30-ab5a ab5c-ab5f ab64-ab65 abc0-abea abf0-abf9 d7b0-d7c6 d7cb-d7fb fb00-fb06 "
    "fb13-fb17 fb1d-fb28 fb2a-fb36 fb38-fb3c fb3e fb40-fb41 fb43-fb44 fb46-fbb1 fbd3-fd3d "
    "fd50-fd8f fd92-fdc7 fdf0-fdfb fe70-fe74 fe76-fefc ff10-ff19 ff21-ff3a ff41-ff5a ff66-ffbe "
    "ffc2-ffc7 ffca-ffcf ffd2-ffd7 ffda-ffdc 10a3f 11046 110b9-110ba 11133 11173 111c0 111ca "
    "11235-11236 112e9-112ea 1133c 1134d 11442 11446 114c2-114c3 115bf-115c0 1163f 116b6-116b7 "
    "11839-1183a 119e0 11a34 11c3f 11d42 11d45 11d97 1e94a"
)

#: Characters of the Unicode categories N*.
NUMBER = (
    "30-39 b2-b3 b9 bc-be 660-669 6f0-6f9 7c0-7c9 966-96f 9e6-9ef 9f4-9f9 a66-a6f ae6-aef "
    "b66-b6f b72-b77 be6-bf2 c66-c6f c78-c7e ce6-cef d66-d75 de6-def e50-e59 ed0-ed9 f20-f33 "
    "1040-1049 1090-1099 1369-137c 16ee-16f0 17e0-17e9 17f0-17f9 1810-1819 1946-194f 19d0-19da "
    "1a80-1a89 1a90-1a99 1b50-1b59 1bb0-1bb9 1c40-1c49 1c50-1c59 2070 2074-2079 2080-2089 "
    "2150-2182 2185-2189 2460-249b 24ea-24ff 2776-2793 2cfd 3192-3195 3220-3229 3248-324f "
    "3251-325f 3280-3289 32b1-32bf a620-a629 a6e6-a6ef a830-a835 a8d0-a8d9 a900-a909 a9d0-a9d9 "
    "a9f0-a9f9 aa50-aa59 abf0-abf9 ff10-ff19"
)

#: Scripts that are letters only in the languages that are written in them.
CJK: dict[str, str] = {
    "zh": "3005-3007 3021-3029 3038-303c 3400-4dbf 4e00-9fff f900-fad9 20000-3134f",
    "ja": (
        "3005-3007 3021-3029 3031-3035 3038-303c 3041-3096 309d-309f 30a1-30fa 30fc-30ff "
        "31f0-31ff 3400-4dbf 4e00-9fff f900-fad9 ff66-ff9f 20000-3134f"
    ),
    "ko": "1100-11ff 3131-318e a960-a97c ac00-d7a3 d7b0-d7fb ffa0-ffdc",
}

_LATIN = " ".join(ascii_uppercase)
_ROMAN = "II III IV VI VII VIII IX XI XII XIII XIV XV XVI XVII XVIII XIX XX"
_TITLES = (
    "Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Ens Gen Gov "
    "Hon Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt "
    "Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr St Supt Surg v vs Nos Nr"
)
_UNITS = ("гг", "г", "м", "мм", "см", "дм", "л", "км", "га", "кг", "т", "мг")
_MEASURES = " ".join(f"{digit}{unit}" for unit in _UNITS for digit in range(10))
_NUMBERS = " ".join(map(str, range(1, 100)))

#: Non-breaking prefixes by language.
PREFIXES: dict[str, str] = {
    "cs": (
        "Bc BcA Ing Ing.arch MUDr MVDr MgA Mgr JUDr PhDr RNDr PharmDr ThLic ThDr Ph.D Th.D prof "
        "doc CSc DrSc PaedDr Dr PhMr DiS abt ad a.i aj angl anon apod atd atp aut bd biogr b.m "
        "b.p b.r cca cit cizojaz c.k col čes čín čj ed facs fasc fol fot franc h.c hist hl hrsg "
        "ibid il ind inv.č jap jhdt jv koed kol korej kl krit lat lit m.a maď mj mp násl např "
        "nepubl něm no nr n.s okr odd odp obr opr orig phil pl pokrač pol port pozn př.kr př.n.l "
        "přel přeprac příl pseud pt red repr resp revid rkp roč roz rozš samost sect sest seš "
        "sign sl srv stol sv šk šk.ro špan tab t.č tis tj tř tzv univ uspoř vol vl.jm vs vyd "
        "vyobr zal zejm zkr zprac zvl n.p než abl absol adj adv ak akt alch amer anat anglosas "
        "arab arch archit arg astr astrol att bás belg bibl biol boh bot bulh círk csl č čas dat "
        "děj dep dět dial dór dopr dosl ekon epic etnonym eufem f fam fem fil film form fr fut "
        "fyz gen geogr geol geom germ gram hebr herald hovor hud hut chcsl chem ie imp impf "
        "indoevr inf instr interj ión iron it kanad katalán klas kniž komp konj konkr kř kuch lék "
        "les lid liturg lok log m mat meteor metr mod ms mysl n náb námoř neklas nesklon nom ob "
        "obch obyč ojed opt part pas pejor pers pf plpf práv prep předl přivl r rcsl refl reg ř "
        "řec s samohl sg souhl spec srov stfr střv stsl subj subst superl sz táz tech telev teol "
        "trans typogr var vedl verb voj vok vůb vulg výtv vztaž zahr zájm zast zeměd zř dl sport "
        "horn RSDr pomn ev slang nprap dop st tzn p br čp ml vč kr mld hod popř ap event rus slov "
        "rum švýc hor dol S.O.S"
    ),
    "de": (
        f"{_LATIN} {_LATIN.lower()} {_TITLES} {_ROMAN} {_ROMAN.lower()} {_NUMBERS} Mio Mrd bzw usw "
        "d.h z.B u.a etc MwSt ggf d.J D.h m.E vgl I.F z.T sogen ff u.E g.U g.g.A c.-à-d Buchst "
        "u.s.w sog u.ä Std evtl Zt Chr u.U o.ä Ltd b.A z.Zt spp sen SA k.o jun i.H.v dgl dergl Co "
        "zzt usf s.p.a Dkr bzgl BSE No Art pp ca Ca"
    ),
    "en": (
        f"{_LATIN} {_TITLES} Drs Hr i.e rev e.g Rs No# Art# pp# Jan Feb Mar Apr Jun Jul Aug Sep "
        "Oct Nov Dec"
    ),
    "es": (
        f"{_LATIN} A.C Apdo Av Bco CC.AA Da Dep Dn Dr Dra EE.UU Excmo FF.CC Fil Gral J.C Let Lic "
        "N.B P.D P.V.P Prof Pts Rte S.A S.A.R S.E S.L S.R.C Sr Sra Srta Sta Sto T.V.E Tel Ud Uds "
        "V.B V.E Vd Vds a/c adj admón afmo apdo av c c.f c.g cap cm cta dcha doc ej entlo esq etc "
        "f.c gr grs izq kg km mg mm nÃºm núm p p.a p.ej ptas pÃ¡g pÃ¡gs pág págs q.e.g.e q.e.s.m "
        "s s.s.s vid vol"
    ),
    "fi": (
        f"{_LATIN} Å Ä Ö alik alil amir apul apul.prof arkkit ass assist dipl dipl.arkkit "
        "dipl.ekon dipl.ins dipl.kielenk dipl.kirjeenv dipl.kosm dipl.urk dos erikoiseläinl "
        "erikoishammasl erikoisl erikoist ev.luutn evp fil ft hallinton hallintot hammaslääket "
        "jatk jääk kansaned kapt kapt.luutn kenr kenr.luutn kenr.maj kers kirjeenv kom kom.kapt "
        "komm konst korpr luutn maist maj Mr Mrs Ms M.Sc neuv nimim Ph.D prof puh.joht pääll res "
        "san siht suom sähköp säv toht toim toim.apul toim.joht toim.siht tuom ups vänr vääp "
        "ye.ups ylik ylil ylim ylimatr yliop yliopp ylip yliv e.g ent esim huom i.e ilm l mm myöh "
        "nk nyk par po t v"
    ),
    "fr": (
        f"{_LATIN} b c d e f g h i j k l m n o p q r s t u v w x y z A.C.N A.M art ann apr av auj "
        "lib B.P boul ca c.-à-d cf ch.-l chap contr C.P.I C.Q.F.D C.N C.N.S C.S dir éd e.g env al "
        "etc E.V ex fasc fém fig fr hab ibid id i.e inf LL.AA LL.AA.II LL.AA.RR LL.AA.SS L.D "
        "LL.EE LL.MM LL.MM.II.RR loc.cit masc MM ms N.B N.D.A N.D.L.R N.D.T n/réf NN.SS N.S N.D "
        "N.P.A.I p.c.c pl pp p.ex p.j P.S R.A.S R.-V R.P R.I.P SS S.S S.A S.A.I S.A.R S.A.S S.E "
        "sec sect sing S.M S.M.I.R sq sqq suiv sup suppl tél T.S.V.P vb vol vs X.O Z.I"
    ),
    "it": (
        f"{_LATIN} {_TITLES} Amn Arch Avv Bcc C.A.P C.P Cc Co Dott Drs Egr Geom Hr Id Ing Mo Mons "
        "N.B P.S P.T RP RSVP Rag Rif S.A S.B.F S.P.M S.p.A S.r.l Sig Sigg Soc Spett V.P a.c acc "
        "all banc c.a c.c.p c.m c.p c.s c.v corr dott e.p.c ecc es fatt gg int lett ogg on p.c "
        "p.c.c p.es p.f p.r p.v post pp# racc ric s.n.c seg sgg ss tel u.s v.r v.s i.e rev e.g "
        "No# Art#"
    ),
    "nl": (
        f"{_LATIN} bacc bc bgen c.i dhr dr dr.h.c drs ds eint fa Fa fam gen genm ing ir jhr jkvr "
        "jr kand kol lgen lkol Lt maj Mej mevr Mme mr Mw o.b.s plv prof ritm tint Vz Z.D Z.D.H "
        "Z.E Z.Em Z.H Z.K.H Z.K.M Z.M z.v a.g.v bijv bijz bv d.w.z e.c e.g e.k ev i.p.v i.s.m "
        "i.t.t i.v.m m.a.w m.b.t m.b.v m.h.o m.i m.i.v v.w.t Nr# Nrs nrs nr#"
    ),
    "pl": (
        f"{_LATIN} adw afr akad al Al am amer arch art Art artyst astr austr bałt bdb bł bm br "
        "bryg bryt centr ces chem chiń chir c.k c.o cyg cyw cyt czes czw cd Cd czyt ćw ćwicz daw "
        "dcn dekl demokr det diec dł dn dot dol dop dost dosł h.c ds dst duszp dypl egz ekol ekon "
        "elektr em ew fab farm fot fr gat gastr geogr geol gimn głęb gm godz górn gosp gr gram "
        "hist hiszp hr Hr hot id in im iron jn kard kat katol k.k kk kol kl k.p.a kpc k.p.c kpt "
        "kr k.r krak k.r.o kryt kult laic łac niem woj nb np Nb Np pol pow m.in pt ps Pt Ps cdn "
        "jw ryc rys Ryc Rys tj tzw Tzw tzn zob ang ub ul pw pn pl k n nr# Nr# ww wł ur zm żyd "
        "żarg żyw wył bp wyst tow Tow o sp Sp st spółdz Spółdz społ spółgł stoł stow Stoł Stow zn "
        "zew zewn zdr zazw zast zaw zał zal zam zak zakł zagr zach Adw lek Lek med mec Mec doc "
        "Doc dyw dyr Dyw Dyr inż Inż mgr Mgr dh dr Dh Dr p red Red prof prok Prof Prok hab płk "
        "Płk nadkom Nadkom podkom Podkom ks Ks gen Gen por Por reż Reż przyp Przyp śp św śW Śp Św "
        "ŚW szer Szer pkt# str# tab# Tab# tel ust# par# poz pok oo oO Oo OO r# l# s# najśw Najśw "
        "Ś Ć Ż Ź Dz"
    ),
    "pt": (
        f"{_LATIN} {_ROMAN} {_ROMAN.lower()} a b c d e f g h i j k l m n o p# q r s t u v w x y z "
        "Adj Adm Adv Art# Ca Capt Cmdr Col Comdr Con Corp Cpl DR DRA Dr Dra Dras Drs Eng Enga "
        "Engas Engos Ex Exo Exmo Fig Gen Hosp Insp Lda MM MR MRS MS Maj Mrs Ms Msgr Op Ord Pfc Ph "
        "Prof Pvt Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr Sra Sras Srs Sto Supt Surg adj adm adv "
        "art cit col con corp cpl dr dra dras drs eng enga engas engos ex exo exmo fig op prof sr "
        "sra sras srs sto vs i.e rev e.g No# Nos Nr pp#"
    ),
    "ro": f"{_LATIN} dpdv etc șamd M.Ap.N dl Dl d-na D-na dvs Dvs pt Pt",
    "ru": (
        f"{_LATIN} {_MEASURES} А Б В Г Д Е Ж З И Й К Л М Н О П Р С Т У Ф Х Ц Ч Ш Щ Ъ Ы Ь Э Ю Я Xвв "
        "Vвв Iвв Lвв Mвв Cвв Xв Vв Iв Lв Mв Cв бульв в вв г га гг гл гос д дм доп др е ед зам и "
        "инд исп Исп к кап кг кв кл км кол комн коп куб л лиц лл м макс мг мин мл млн млрд мм н "
        "наб нач неуд ном о обл обр общ ок ост отл п пер перераб пл пос пр просп проф р ред руб с "
        "сб св см соч ср ст стр т тел Тел тех тт туп тыс уд ул уч физ х хор ч чел шт экз э"
    ),
    "sv": (
        f"{_LATIN} Å Ä Ö AB VG dvs d.v.s etc from fr.o.m iaf i.a.f jfr kl kr mao m.a.o mfl m.fl mm "
        "m.m osv o.s.v pga p.g.a tex t.ex tom t.o.m vs adv jur kand mag fil lic prop d f s mha "
        "m.h.a vol jan feb mar apr jun jul aug sep okt nov dec"
    ),
    "zh": f"{_LATIN} Ā Č Ē Ģ Ī Ķ Ļ Ņ Š Ū Ž No# Nr#",
}
